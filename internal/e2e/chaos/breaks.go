package chaos

import (
	"maps"
	"regexp"
	"slices"
)

// An edit replaces one place in the text of a script.
type edit struct {
	place *regexp.Regexp
	text  string // as regexp.ReplaceAllString takes it
}

// Breaks are moves that a run breaks on purpose, to show that the checker
// would see it. The scripts are edited on their way to Redis, in the proxies
// of the run: no build of the product knows how.
var Breaks = map[string][]edit{
	// A worker may settle a task whatever became of its claim.
	"fence": {
		{regexp.MustCompile(`local ours = h and h\.status == 'running' and h\.worker_id == worker`), `local ours = h and true`},
		{regexp.MustCompile(`elseif ours and h\.attempt == ARGV\[i \+ 1\] then`), `elseif ours then`},
	},
	// A completed task stays in its processing list.
	"lrem": {
		{regexp.MustCompile(`(?m)^-- finish records`), "local function leave_processing() end\nlocal function remove_all() return {} end\n$0"},
	},
	// A task is acknowledged first and its result written later, which for
	// every fourth one never comes.
	"ack": {
		{regexp.MustCompile(`redis\.call\('SETEX', [^\n]*':result'[^\n]*`), `if string.byte(id, -1) % 4 > 0 then $0 end`},
	},
}

// BreakNames lists the names in Breaks.
func BreakNames() []string { return slices.Sorted(maps.Keys(Breaks)) }

// broken is the text of a script with a move broken, and in how many places
// that changed it.
func broken(name, script string) (text string, places int) {
	for _, e := range Breaks[name] {
		if n := len(e.place.FindAllString(script, -1)); n > 0 {
			script = e.place.ReplaceAllString(script, e.text)
			places += n
		}
	}
	return script, places
}
