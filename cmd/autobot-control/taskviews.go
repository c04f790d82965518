package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/queue"
)

// changesFor prints one line per name.
func changesFor(done []change) func(io.Writer) error {
	return func(w io.Writer) error {
		for _, d := range done {
			text := d.Status
			if d.Detail != "" {
				text = "refused: " + d.Detail
			}
			if _, err := fmt.Fprintf(w, "%s: %s\n", cli.Printable(d.Name), cli.Printable(text)); err != nil {
				return err
			}
		}
		return nil
	}
}

func printRetries(env *environment, report client.RetryReport) error {
	err := env.Print(report, func(w io.Writer) error {
		what := "queued again"
		if report.DryRun {
			what = "would be queued again"
		}
		for _, id := range report.Retried {
			if _, err := fmt.Fprintf(w, "%s: %s\n", cli.Printable(id), what); err != nil {
				return err
			}
		}
		for _, id := range slices.Sorted(maps.Keys(report.Refused)) {
			if _, err := fmt.Fprintf(w, "%s: refused: %s\n", cli.Printable(id), cli.Printable(report.Refused[id])); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintf(w, "%s %s\n", count(len(report.Retried), "task"), what)
		return err
	})
	if err == nil && len(report.Refused) > 0 {
		return cli.Exitf(cli.ExitFailure, "%s refused", count(len(report.Refused), "task"))
	}
	return err
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// printTasks writes the table of tasks list.
func printTasks(w io.Writer, tasks []queue.Task) error {
	if len(tasks) == 0 {
		_, err := fmt.Fprintln(w, "no tasks")
		return err
	}
	rows := make([][]string, 0, len(tasks))
	for _, t := range tasks {
		worker := t.WorkerID
		if worker == "" {
			worker = t.PreviousWorker
		}
		note := t.ErrorCode
		if note == "" && t.Status != queue.StatusCompleted {
			note = t.LastError
		}
		status, retries, priority := string(t.Status), "", string(t.Priority)
		if t.Priority == queue.PriorityNormal {
			priority = ""
		}
		if t.Status == queue.StatusFailedPermanent {
			status = "failed" // what the filter takes too
		}
		if t.RetryCount > 0 {
			retries = fmt.Sprintf("%d/%d", t.RetryCount, t.MaxRetries)
		}
		rows = append(rows, []string{t.ID, t.Type, status, ago(t.CreatedAt), worker, priority, retries, note})
	}
	return cli.Table(w, []string{"TASK", "TYPE", "STATUS", "AGE", "WORKER", "PRIORITY", "RETRIES", "ERROR"}, rows)
}

// ago is how long a moment lies back, "" for none.
func ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return short(time.Since(t))
}

// short writes a duration with one or two units.
func short(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// fields prints name and value below each other, without the empty ones.
func fields(w io.Writer, pairs [][2]string) error {
	width := 0
	for _, p := range pairs {
		if p[1] != "" {
			width = max(width, len(p[0]))
		}
	}
	for _, p := range pairs {
		if p[1] == "" {
			continue
		}
		// Values of several lines (JSON) keep their indentation.
		lines := strings.Split(p[1], "\n")
		for i, line := range lines {
			name := p[0]
			if i > 0 {
				name = ""
			}
			if _, err := fmt.Fprintf(w, "%-*s  %s\n", width, name, cli.Printable(line)); err != nil {
				return err
			}
		}
	}
	return nil
}

// moment shows a time in the local zone, and how long ago it was.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	text := t.Local().Format("2006-01-02 15:04:05.000")
	if d := time.Until(t); d > 0 {
		return text + " (in " + short(d) + ")"
	}
	return text + " (" + ago(t) + " ago)"
}
