package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/cmd/autobot-control/internal/follow"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/queue"
)

// demoPatience bounds one task; every one of them takes seconds at most.
const demoPatience = 2 * time.Minute

// demo runs one task per executor that is ready, and reports whether all
// succeeded (and there was at least one).
func (f *fleet) demo(ctx context.Context, status agentStatus) (good bool, err error) {
	c, err := f.dial()
	if err != nil {
		return false, err
	}
	defer func() { _ = c.Close() }()
	f.say("")
	f.say("Demo: one real task per executor")
	var done []outcome
	good = true
	for _, e := range status.Executors {
		t, known := demoTasks[e.Name]
		switch {
		case !e.ready():
			continue // introduced with its reason
		case !known:
			f.say("  %s is ready; the demo has no task for it", e.Name)
			continue
		}
		o := f.demoTask(ctx, c, e.Name, t)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		good = good && o.ok
		done = append(done, o)
	}
	if len(done) == 0 {
		f.say("  no executor is ready, so there is nothing to show")
		return false, nil
	}
	f.say("")
	f.table(done)
	f.say("")
	f.say("Files are in %s", f.folder.path("demo"))
	return good, nil
}

// demoTask runs one task and saves what it leaves.
func (f *fleet) demoTask(ctx context.Context, c *client.Client, executor string, t demoTask) outcome {
	o := outcome{executor: executor}
	begin := time.Now()
	show := follow.New(f.o.Out, fmt.Sprintf("  %s: %s", executor, t.about))
	document, err := runDemo(ctx, c, t, show)
	show.Close()
	o.took = time.Since(begin)
	o.worker = show.State().WorkerID
	if err == nil {
		var saved []client.Saved
		saved, err = c.SaveArtifacts(ctx, document, f.folder.path("demo"), true)
		for _, s := range saved {
			o.files = append(o.files, filepath.Base(s.Path))
		}
	}
	if err != nil {
		o.result = "FAILED: " + err.Error()
		f.say("  %s: %s ... failed", executor, t.about)
		return o
	}
	o.ok = true
	o.describe(t, document)
	f.say("  %s: %s ... done", executor, t.about)
	return o
}

func runDemo(ctx context.Context, c *client.Client, t demoTask, show *follow.Follower) (json.RawMessage, error) {
	limited, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	receipt, err := c.Submit(limited, submission(t))
	if err != nil {
		return nil, err
	}
	document, err := c.Wait(limited, receipt.ID, show.Event)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("it has not ended after %s (task %s)", demoPatience, receipt.ID)
	}
	return document, err
}

// submission is the task without retries: a demo shows what happens.
func submission(t demoTask) queue.Submission {
	none := 0
	return queue.Submission{Type: t.typ, Payload: json.RawMessage(t.payload), MaxRetries: &none, Labels: map[string]string{"demo": "true"}}
}

// table sums the demo up.
func (f *fleet) table(list []outcome) {
	rows := make([][]string, 0, len(list))
	for _, o := range list {
		files := strings.Join(o.files, ", ")
		if files == "" {
			files = "-"
		}
		rows = append(rows, []string{o.executor, o.worker, fmt.Sprintf("%.2f s", o.took.Seconds()), o.result, files})
	}
	// A screen that is gone is no reason to fail.
	_ = cli.Table(f.o.Out, []string{"EXECUTOR", "WORKER", "TIME", "RESULT", "FILE"}, rows)
}
