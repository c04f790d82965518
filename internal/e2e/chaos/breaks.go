package chaos

import (
	"maps"
	"slices"
	"strings"
)

// An edit replaces one place in the text of a script.
type edit struct{ before, after string }

// Breaks are moves that a run breaks on purpose, to show that the checker
// would see it. The scripts are edited on their way to Redis, in the proxies
// of the run: no build of the product knows how.
var Breaks = map[string][]edit{
	// A worker may settle a task whatever became of its claim.
	"fence": {
		{"local ours = h and h.status == 'running' and h.worker_id == worker\n", "local ours = h and true\n"},
		{"elseif ours and h.attempt == ARGV[i + 1] then\n", "elseif ours then\n"},
	},
	// A completed task stays in its processing list.
	"lrem": {
		{"  leave_processing(id, h, ARGV[i + 2])\n  redis.call('ZADD', INDEX.completed", "  redis.call('ZADD', INDEX.completed"},
	},
	// A task is acknowledged first and its result written later, which for
	// every fourth one never comes.
	"ack": {
		{"  redis.call('SETEX', task_key(id) .. ':result', ttl_of(h, default_ttl), ARGV[i + 3])\n",
			"  if string.byte(id, -1) % 4 > 0 then redis.call('SETEX', task_key(id) .. ':result', ttl_of(h, default_ttl), ARGV[i + 3]) end\n"},
	},
}

// BreakNames lists the names in Breaks.
func BreakNames() []string { return slices.Sorted(maps.Keys(Breaks)) }

// broken is the text of a script with a move broken, and in how many places
// that changed it.
func broken(name, script string) (text string, places int) {
	for _, e := range Breaks[name] {
		if n := strings.Count(script, e.before); n > 0 {
			script = strings.ReplaceAll(script, e.before, e.after)
			places += n
		}
	}
	return script, places
}
