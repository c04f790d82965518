package redislist_test

import (
	"bufio"
	"context"
	"crypto/sha1" // Redis names scripts by it
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// foundKinds are the kinds of keys that a script may touch without a
// declaration, because it learns their names from what it reads. Whatever a
// caller knew before the call has to be declared even then.
var foundKinds = map[string]string{
	"adopt":        "task queue unique",
	"cancel":       "queue processing inbox unique",
	"claim":        "task queue processing unique",
	"conclude":     "task queue",
	"delete":       "queue processing inbox unique",
	"deregister":   "task queue",
	"expire":       "task result failure progress",
	"fail":         "queue processing unique",
	"finish":       "task queue processing unique",
	"inboxes":      "task queue inbox",
	"lead":         "",
	"migrate":      "queue processing unique",
	"progress":     "",
	"promote":      "task queue",
	"reap":         "queue processing heartbeat config tasks unique",
	"recover":      "queue processing unique",
	"register":     "",
	"release":      "queue processing unique",
	"renew":        "",
	"reprioritise": "queue",
	"resign":       "",
	"retry":        "task queue unique",
	"submit":       "task",
	"unexclude":    "",
	"unnamed":      "",
}

// kindOf is the kind of a key without prefix and the name in it.
func kindOf(key string) (kind, name string) {
	first, rest, _ := strings.Cut(key, ":")
	last := func(kinds ...string) (string, string) {
		for _, k := range kinds {
			if n, ok := strings.CutSuffix(rest, ":"+k); ok {
				return k, n
			}
		}
		return "", rest
	}
	switch first {
	case "task":
		if kind, name = last("result", "failure", "progress"); kind == "" {
			kind = "task"
		}
		return kind, name
	case "queue":
		if kind, name = last("processing"); kind == "" {
			kind = "queue"
		}
		return kind, name
	case "worker":
		return last("heartbeat", "config", "tasks")
	case "autobot":
		for _, k := range []string{"unique", "inbox", "failover"} {
			if n, ok := strings.CutPrefix(rest, k+":"); ok {
				return k, n
			}
		}
	}
	return "fixed", key
}

// keyWatch listens to every command of a server and holds what scripts touch
// against the keys that their callers declared.
type keyWatch struct {
	conn  net.Conn
	names map[string]string // script hash -> name
	end   string
	all   bool          // every script has to be called
	done  chan struct{} // closed when all commands were seen

	seen  map[string]bool
	wrong map[string]bool
}

// watchKeys fails t at its end if a script on srv touched a key that was known
// and not declared.
func watchKeys(t *testing.T, srv *redistest.Server) *keyWatch {
	t.Helper()
	names, err := redislist.ScriptNames()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	w := &keyWatch{conn: conn, names: names, end: uuid.NewString(), done: make(chan struct{}), seen: map[string]bool{}, wrong: map[string]bool{}}
	in := bufio.NewReader(conn)
	if _, err := fmt.Fprint(conn, "MONITOR\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := in.ReadString('\n'); err != nil || answer != "+OK\r\n" {
		t.Fatalf("MONITOR: %q, %v", answer, err)
	}
	go w.follow(in)
	rdb := srv.Client(t)
	t.Cleanup(func() {
		// The context of t has ended when its cleanups run.
		if err := rdb.Echo(context.Background(), w.end).Err(); err != nil {
			t.Error(err)
			_ = conn.Close()
		}
		<-w.done
		_ = conn.Close()
		for _, s := range sortedKeys(w.wrong) {
			t.Error(s)
		}
		if missing := w.uncalled(); w.all && len(missing) > 0 {
			t.Errorf("scripts that no test has called, or that foundKinds does not list: %v", missing)
		}
	})
	return w
}

// follow reads until the watch's own mark.
func (w *keyWatch) follow(in *bufio.Reader) {
	defer close(w.done)
	var call scriptCall
	for {
		line, err := in.ReadString('\n')
		if err != nil || strings.Contains(line, w.end) {
			return
		}
		_, command, ok := strings.Cut(line, "] ")
		if !ok {
			continue
		}
		switch {
		case strings.HasPrefix(strings.ToLower(command), `"eval`):
			call = newScriptCall(w.names, monitorWords(command))
		case strings.Contains(line, " lua] "):
			w.check(call, monitorWords(command))
		}
	}
}

func (w *keyWatch) check(call scriptCall, command []string) {
	w.seen[call.name] = true
	for _, key := range keysOf(command) {
		if call.keys[key] {
			continue
		}
		kind, name := kindOf(strings.TrimPrefix(key, call.prefix))
		if !call.known[name] && slices.Contains(strings.Fields(foundKinds[call.name]), kind) {
			continue
		}
		w.wrong[fmt.Sprintf("script %s touches a key of kind %q with %s and its caller did not declare it, such as %s", call.name, kind, command[0], key)] = true
	}
}

// uncalled lists the scripts that were never called, or have no entry above.
func (w *keyWatch) uncalled() []string {
	var out []string
	for _, name := range w.names {
		if _, listed := foundKinds[name]; !w.seen[name] || !listed {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// scriptCall is one EVAL or EVALSHA.
type scriptCall struct {
	name, prefix string
	keys         map[string]bool
	known        map[string]bool // words that the caller gave
}

func newScriptCall(names map[string]string, words []string) scriptCall {
	c := scriptCall{keys: map[string]bool{}, known: map[string]bool{}}
	if len(words) < 3 {
		return c
	}
	hash := words[1]
	if strings.EqualFold(words[0], "eval") {
		sum := sha1.Sum([]byte(words[1]))
		hash = hex.EncodeToString(sum[:])
	}
	c.name = names[hash]
	n, _ := strconv.Atoi(words[2])
	for _, k := range words[3 : 3+n] {
		c.keys[k] = true
	}
	args := words[3+n:]
	for i, a := range args {
		if i == 0 {
			c.prefix = a
			continue
		}
		c.known[a] = true
		var request struct {
			W string
			Q []string
		}
		if json.Unmarshal([]byte(a), &request) == nil { // a claim request
			for _, name := range append(request.Q, request.W) {
				c.known[name] = true
			}
		}
	}
	delete(c.known, "")
	return c
}

// keysOf lists the keys of a command as our scripts use it.
func keysOf(command []string) []string {
	switch strings.ToLower(command[0]) {
	case "publish", "time":
		return nil
	case "exists", "del":
		return command[1:]
	case "rpoplpush":
		return command[1:3]
	}
	return command[1:2]
}

// monitorWords takes a line of MONITOR apart: words in quotes, with escapes.
func monitorWords(line string) []string {
	var out []string
	var word strings.Builder
	inside := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			if inside {
				out = append(out, word.String())
				word.Reset()
			}
			inside = !inside
		case c == '\\' && i+1 < len(line):
			i++
			switch e := line[i]; e {
			case 'n':
				word.WriteByte('\n')
			case 'r':
				word.WriteByte('\r')
			case 't':
				word.WriteByte('\t')
			case 'a':
				word.WriteByte('\a')
			case 'b':
				word.WriteByte('\b')
			case 'x':
				b, _ := hex.DecodeString(line[i+1 : i+3])
				word.Write(b)
				i += 2
			default:
				word.WriteByte(e)
			}
		case inside:
			word.WriteByte(c)
		}
	}
	return out
}
