package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/agent"
)

// The list says what confines each executor's processes, and "-" where it has
// none.
func TestExecutorsListTellsWhatConfinesThem(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := listExecutors(&out, []agent.ExecutorStatus{
		{Name: "playwright", Version: "1.0.0", State: "ready", Types: []agent.Type{{Type: "browser"}}, InFlight: 1, Concurrency: 2, Confinement: "cgroup"},
		{Name: "script", Version: "1.0.0", State: "ready", Concurrency: 1, Confinement: "process group"},
		{Name: "speech", State: "disabled", Reasons: []string{"it is switched off"}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("printed\n%s", out.String())
	}
	at := strings.Index(lines[0], "CONFINED BY")
	if at < 0 {
		t.Fatalf("no column says what confines them:\n%s", out.String())
	}
	for i, want := range []string{"cgroup ", "process group ", "- "} {
		if !strings.HasPrefix(lines[i+1][at:], want) {
			t.Errorf("line %q does not tell %q", lines[i+1], want)
		}
	}
}
