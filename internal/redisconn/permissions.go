package redisconn

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Role is what a program of ours does with Redis. docs/examples/redis/users.acl
// has a user for each.
type Role string

// The roles.
const (
	Agent   Role = "agent"
	Control Role = "control"
)

// needs is what a role needs. Keys and channels are examples, one of each
// pattern.
type needs struct {
	commands string // names; a subcommand is written command|subcommand
	optional string // without these it works too, if less well
	keys     []string
	channels []string
}

var roles = map[Role]needs{
	Agent: {
		commands: "ping select multi exec evalsha eval time publish subscribe unsubscribe exists del get set setex pexpire pttl " +
			"hget hmget hgetall hset hdel hstrlen lpush rpush rpop rpoplpush brpoplpush lrem ltrim lrange llen lpos lindex " +
			"sadd srem scard sismember smismember smembers sscan zadd zrem zscore zrangebyscore",
		optional: "discard client|setname client|id client|unblock unlink info scan wait",
		keys:     []string{"queue:x", "task:x", "worker:x", "workers:registered", "failover:log", "autobot:x"},
		channels: []string{"task:x:events", "autobot:x"},
	},
	Control: {
		commands: "ping select multi exec evalsha eval time publish subscribe unsubscribe scan exists del get mget set incr expire pttl " +
			"hmget hgetall hset hdel hincrby lpush rpush rpop lrange lrem ltrim llen lpos lindex " +
			"sadd srem scard sismember smembers sscan zadd zrem zscore zrange zrevrange zrangebyscore zremrangebyscore",
		optional: "discard client|setname info wait",
		keys:     []string{"queue:x", "task:x", "worker:x", "workers:registered", "failover:log", "autobot:x"},
		channels: []string{"task:x:events", "autobot:x"},
	},
}

// arguments are what makes a command complete; K stands for a key, C for a
// channel. Those that are missing take a key alone.
var arguments = map[string]string{
	"ping": "", "select": "0", "evalsha": "0000000000000000000000000000000000000000 1 K", "eval": "return{} 1 K", "time": "", "info": "server",
	"publish": "C x", "subscribe": "C", "unsubscribe": "C", "scan": "0 COUNT 1", "set": "K x XX", "setex": "K 1 x", "expire": "K 1", "pexpire": "K 1",
	"hget": "K x", "hmget": "K x", "hset": "K x x", "hdel": "K x", "hstrlen": "K x", "hincrby": "K x 0", "lpush": "K x", "rpush": "K x",
	"rpoplpush": "K K", "brpoplpush": "K K 1", "lrem": "K 0 x", "ltrim": "K 0 1", "lpos": "K x", "lindex": "K 0", "lrange": "K 0 1",
	"sadd": "K x", "srem": "K x", "sismember": "K x", "smismember": "K x", "sscan": "K 0", "zadd": "K XX 1 x", "zrem": "K x", "zscore": "K x",
	"zrange": "K 0 1", "zrevrange": "K 0 1", "zrangebyscore": "K 0 1", "zremrangebyscore": "K 0 1",
	"wait": "0 0", "client|setname": "x", "client|id": "", "client|unblock": "0",
}

// Lack is what a Redis user may not do and would need.
type Lack struct {
	Commands []string // without these it cannot do its work
	Optional []string // without these it works, if less well
	Keys     []string // patterns
	Channels []string // patterns
}

// Fatal reports whether the work cannot be done.
func (l *Lack) Fatal() bool { return len(l.Commands)+len(l.Keys)+len(l.Channels) > 0 }

// String lists what is missing.
func (l *Lack) String() string {
	var parts []string
	add := func(what string, list []string) {
		if len(list) > 0 {
			parts = append(parts, what+" "+strings.Join(list, ", "))
		}
	}
	add("the commands", l.Commands)
	add("the keys", l.Keys)
	add("the channels", l.Channels)
	return strings.Join(parts, "; ")
}

// Lacking returns a sentence that names the permissions that our Redis user
// lacks for a role, "" if it has those that it cannot do without, or if the
// server cannot be asked now.
func (m *Manager) Lacking(ctx context.Context, role Role) string {
	l, err := m.Lack(ctx, role)
	if err != nil || !l.Fatal() {
		return ""
	}
	return fmt.Sprintf("The Redis user %q lacks permissions that the role %s needs (%s): give it those of autobot-%s in docs/examples/redis/users.acl.",
		m.user(), role, l, role)
}

func (m *Manager) user() string {
	if m.address.username != "" {
		return m.address.username
	}
	return "default"
}

// Lack asks the server which permissions our user lacks for a role, in two
// round trips on a connection of its own. Nothing is executed: the commands are
// queued in a transaction that is discarded, and Redis refuses those that are
// not allowed when they are queued.
func (m *Manager) Lack(ctx context.Context, role Role) (*Lack, error) {
	c, err := m.Dedicated(Main, DedicatedOptions{Name: "permissions"})
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // which discards too
	l := &Lack{}
	// Without MULTI or DISCARD the commands would be executed in the end: these
	// two come first, and alone. EXEC then has nothing to execute.
	pipe := c.Pipeline()
	begin, discard, exec := pipe.Do(ctx, "multi"), pipe.Do(ctx, "discard"), pipe.Do(ctx, "exec")
	_, _ = pipe.Exec(ctx) // each has its own error
	if denied(exec.Err()) {
		l.Commands = append(l.Commands, "exec")
	}
	switch {
	case denied(begin.Err()):
		l.Commands = append(l.Commands, "multi")
		return l, nil
	case begin.Err() != nil:
		return nil, fmt.Errorf("ask Redis at %s about permissions: %w", m.Address(), begin.Err())
	case discard.Err() != nil:
		l.Optional = append(l.Optional, "discard")
		return l, nil
	}
	found := map[probe]func() error{}
	pipe = c.Pipeline()
	begin = pipe.Do(ctx, "multi")
	for _, p := range m.probes(role) {
		found[p] = pipe.Do(ctx, p.words()...).Err
	}
	pipe.Do(ctx, "discard")
	_, _ = pipe.Exec(ctx) // each has its own error
	if begin.Err() != nil {
		return nil, fmt.Errorf("ask Redis at %s about permissions: %w", m.Address(), begin.Err())
	}
	l.note(found)
	return l, nil
}

// note adds what was denied.
func (l *Lack) note(found map[probe]func() error) {
	for _, p := range slices.SortedFunc(maps.Keys(found), func(a, b probe) int { return strings.Compare(a.name+a.line, b.name+b.line) }) {
		err := found[p]()
		if !denied(err) {
			continue
		}
		// Redis looks at the command first, then at keys and channels: "… has no
		// permissions to run the 'x' command" and "No permissions to access a key".
		ofCommand := !strings.Contains(err.Error(), " access ")
		switch {
		case p.pattern == "" && ofCommand && p.optional:
			l.Optional = append(l.Optional, p.name)
		case p.pattern == "" && ofCommand:
			l.Commands = append(l.Commands, p.name)
		case p.pattern != "" && !ofCommand && p.name == "publish":
			l.Channels = append(l.Channels, p.pattern)
		case p.pattern != "" && !ofCommand:
			l.Keys = append(l.Keys, p.pattern)
		}
	}
}

func denied(err error) bool { return Reason(err) == ReasonPermission }

// probe is one command that is tried.
type probe struct {
	name     string // as in a needs
	line     string
	pattern  string // of the key or channel that it is about, "" if it is about the command
	optional bool
}

func (p probe) words() []any {
	var out []any
	for _, w := range strings.Fields(p.line) {
		out = append(out, w)
	}
	return out
}

// probes are the commands that tell what a role lacks.
func (m *Manager) probes(role Role) []probe {
	n := roles[role]
	prefix := m.cfg.Prefix
	line := func(name, key, channel string) string {
		args, known := arguments[name]
		if !known {
			args = "K"
		}
		words := strings.Fields(strings.ReplaceAll(name, "|", " ") + " " + args)
		for i, w := range words {
			switch w {
			case "K":
				words[i] = key
			case "C":
				words[i] = channel
			}
		}
		return strings.Join(words, " ")
	}
	key, channel := prefix+"queue:permissions", prefix+"task:permissions:events"
	var out []probe
	for _, name := range strings.Fields(n.commands) {
		if name != "multi" && name != "exec" {
			out = append(out, probe{name: name, line: line(name, key, channel)})
		}
	}
	for _, name := range strings.Fields(n.optional) {
		if name != "discard" {
			out = append(out, probe{name: name, line: line(name, key, channel), optional: true})
		}
	}
	for _, k := range n.keys {
		out = append(out, probe{name: "exists", line: "exists " + prefix + strings.ReplaceAll(k, ":x", ":permissions"), pattern: prefix + strings.ReplaceAll(k, ":x", ":*")})
	}
	for _, ch := range n.channels {
		out = append(out, probe{name: "publish", line: "publish " + prefix + strings.ReplaceAll(ch, "x", "permissions") + " x", pattern: prefix + strings.ReplaceAll(ch, "x", "*")})
	}
	return out
}
