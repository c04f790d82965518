package chaos

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

// Report is the summary of a run for people.
type Report struct {
	Options  Options
	Findings []Finding
	Took     time.Duration // from the first task until all had ended
	Faulty   time.Duration // of it with faults
	Faults   map[Kind]int
	Missed   int
	Without  map[Kind]string
	Outcomes map[string]int // status, or status and error code
	Starts   int            // of tasks in executors
	Again    int            // tasks that were tried more than once
	Tasks    int
	Command  string
}

func newReport(r *run, e Evidence, took, faulty time.Duration) *Report {
	report := &Report{
		Options: r.f.o, Findings: Check(e), Took: took, Faulty: faulty, Faults: r.faults.done, Without: r.faults.without,
		Outcomes: map[string]int{}, Tasks: len(e.Tasks), Command: r.f.o.command,
	}
	for _, n := range r.faults.missed {
		report.Missed += n
	}
	for _, s := range e.Tasks {
		t, ok := e.State.Tasks[s.ID]
		name := string(t.Status)
		switch {
		case !ok:
			name = "lost"
		case t.Status == queue.StatusFailedPermanent:
			name += " " + t.Code
		}
		report.Outcomes[name]++
		if t.Attempt > 1 {
			report.Again++
		}
	}
	for _, entry := range e.Ledger {
		if entry.What == "start" {
			report.Starts++
		}
	}
	return report
}

// Violations is how many there are in all.
func (r *Report) Violations() int {
	n := 0
	for _, f := range r.Findings {
		n += len(f.Violations)
	}
	return n
}

// shown is how many violations of one invariant are printed.
const shown = 8

// String is the summary as it is printed.
func (r *Report) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	total := 0
	for _, n := range r.Faults {
		total += n
	}
	line("")
	line("chaos: %d tasks, %d faults in %s, all over after %s (seed %d, redis appendfsync %s)", r.Tasks, total,
		r.Faulty.Round(time.Second), r.Took.Round(time.Second), r.Options.Seed, r.Options.Redis)
	if r.Options.Break != "" {
		line("broken on purpose: %s", r.Options.Break)
	}
	line("")
	line("faults")
	for _, k := range slices.SortedFunc(maps.Keys(r.Faults), func(a, b Kind) int {
		return r.Faults[b]*1000 - r.Faults[a]*1000 + strings.Compare(string(a), string(b))
	}) {
		line("  %5d  %s", r.Faults[k], k)
	}
	if r.Missed > 0 {
		line("  %5d  left out, their target was still busy with another fault or was not there", r.Missed)
	}
	for k, why := range r.Without {
		line("   none  %s: %s", k, why)
	}
	line("")
	line("tasks")
	for _, name := range slices.Sorted(maps.Keys(r.Outcomes)) {
		line("  %7d  %s", r.Outcomes[name], name)
	}
	line("  %7d  starts in executors; %d tasks took more than one attempt", r.Starts, r.Again)
	line("")
	line("invariants")
	for _, f := range r.Findings {
		verdict := "ok"
		if n := len(f.Violations); n > 0 {
			verdict = fmt.Sprintf("%d VIOLATIONS", n)
		}
		line("  %s  %-68s %s", f.Name, f.Says+" ("+f.Checked+")", verdict)
		for i, v := range f.Violations {
			if i == shown {
				line("        and %d more", len(f.Violations)-shown)
				break
			}
			line("        %s", v)
		}
	}
	line("")
	line("repeat: %s", r.Command)
	return b.String()
}

// write keeps the summary with every violation.
func (r *Report) write(path string) error {
	var b bytes.Buffer
	b.WriteString(r.String())
	for _, f := range r.Findings {
		for _, v := range f.Violations {
			fmt.Fprintf(&b, "%s %s\n", f.Name, v)
		}
	}
	return os.WriteFile(path, b.Bytes(), 0o600)
}
