package chaos

import (
	"slices"
	"testing"
	"time"
)

// Each move that is broken on purpose has to show in the invariants that it
// endangers, in a run of seconds.
func TestBrokenMovesAreCaught(t *testing.T) {
	t.Parallel()
	var cuts []Fault // answers to commits get lost, so that outcomes are sent again
	for i := range 80 {
		cuts = append(cuts, Fault{At: time.Duration(i+1) * 150 * ms, Kind: CutReplies, Target: i % agents, For: 120 * ms})
	}
	calm := []Fault{{At: time.Second, Kind: ScriptFlush}}
	for _, tt := range []struct {
		name   string
		tasks  int
		rate   float64
		faults []Fault
		shows  string
	}{
		{"fence", 1500, 150, cuts, "I5"},
		{"lrem", 80, 40, calm, "I1"},
		{"ack", 80, 40, calm, "I2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			report := Run(t, Options{Tasks: tt.tasks, Rate: tt.rate, Break: tt.name, Schedule: tt.faults, Dir: t.TempDir()}, testOutput{t})
			var shown []string
			for _, f := range report.Findings {
				if len(f.Violations) > 0 {
					shown = append(shown, f.Name)
				}
			}
			t.Log(report)
			if !slices.Contains(shown, tt.shows) {
				t.Errorf("the move %s is broken and %s holds; violated: %v", tt.name, tt.shows, shown)
			}
		})
	}
}

// testOutput is where a run in a test tells how far it is.
type testOutput struct{ t *testing.T }

func (o testOutput) Write(b []byte) (int, error) {
	o.t.Log(string(b))
	return len(b), nil
}
