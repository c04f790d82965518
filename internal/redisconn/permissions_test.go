package redisconn

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/internal/redistest"
)

// published are the rules of a published user.
func published(t *testing.T, user string) []string {
	t.Helper()
	for line := range strings.Lines(string(must(os.ReadFile("../../docs/examples/redis/users.acl"))(t))) {
		if words := strings.Fields(line); len(words) > 2 && words[1] == user {
			return words[2:]
		}
	}
	t.Fatalf("no user %s is published", user)
	return nil
}

// What is asked for when a program starts is what is published.
func TestPublishedUsersHaveWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	for role, n := range roles {
		var commands, wanted []string
		for _, rule := range published(t, "autobot-"+string(role)) {
			if name, ok := strings.CutPrefix(rule, "+"); ok && name != "hello" && name != "auth" {
				commands = append(commands, name)
			}
		}
		wanted = append(strings.Fields(n.commands), strings.Fields(n.optional)...)
		slices.Sort(commands)
		slices.Sort(wanted)
		if !slices.Equal(commands, wanted) {
			t.Errorf("%s: published are %v, asked for are %v", role, commands, wanted)
		}
	}
}

func TestLackingPermissionsAreNamed(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	admin := srv.Client(t)
	for _, tt := range []struct {
		name     string
		rules    []string // after those that are published
		want     string   // of the sentence; empty: nothing is missing
		optional string
	}{
		{"the published user", nil, "", ""},
		{"everything", []string{"+@all", "allkeys", "allchannels"}, "", ""},
		{"two commands", []string{"-hset", "-brpoplpush"}, "(the commands brpoplpush, hset)", ""},
		{"no scripts", []string{"-@scripting"}, "(the commands eval, evalsha)", ""},
		{"no transactions", []string{"-multi"}, "(the commands multi)", ""},
		{"no keys of ours", []string{"resetkeys", "~queue:*", "~task:*", "~worker:*"}, "(the keys autobot:*, failover:log, workers:registered)", ""},
		{"no channels", []string{"resetchannels"}, "(the channels autobot:*, task:*:events)", ""},
		{"what it can do without", []string{"-info", "-client", "-scan"}, "", "client|id client|setname client|unblock info scan"},
		{"no discard", []string{"-discard", "-hset"}, "", "discard"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := []any{"ACL", "SETUSER", "agent", "reset"}
			for _, r := range append(published(t, "autobot-agent"), tt.rules...) {
				args = append(args, r)
			}
			if err := admin.Do(t.Context(), args...).Err(); err != nil {
				t.Fatal(err)
			}
			m, _ := newManager(t, Config{URL: "redis://agent:AGENT-PASSWORD@" + srv.Addr()})
			l, err := m.Lack(t.Context(), Agent)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(l.Optional, " "); got != tt.optional {
				t.Errorf("optional: %q, want %q", got, tt.optional)
			}
			text := m.Lacking(t.Context(), Agent)
			if tt.want == "" && text != "" || !strings.Contains(text, tt.want) || tt.want != "" && !strings.Contains(text, `The Redis user "agent"`) {
				t.Errorf("it says %q, want %q", text, tt.want)
			}
		})
	}
	if n := admin.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("asking left %d keys", n)
	}
}

func TestLackingWithoutAServer(t *testing.T) {
	t.Parallel()
	m, _ := newManager(t, Config{URL: "redis://127.0.0.1:1"})
	if l, err := m.Lack(t.Context(), Control); err == nil || l != nil || !IsWait(err) {
		t.Errorf("got %v, %v", l, err)
	}
	if text := m.Lacking(t.Context(), Control); text != "" {
		t.Errorf("it says %q", text)
	}
	mini, _ := newManager(t, Config{URL: "redis://" + redistest.StartMini(t)})
	if l, err := mini.Lack(t.Context(), Control); err != nil || l.Fatal() || len(l.Optional) != 0 {
		t.Errorf("miniredis: %v, %v", l, err)
	}
}
