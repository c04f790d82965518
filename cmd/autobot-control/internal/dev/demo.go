package dev

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/cmd/autobot-control/internal/follow"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/queue"
)

// demoPatience bounds one task; every one of them takes seconds at most.
const demoPatience = 2 * time.Minute

// demo runs the tasks of each executor that is ready, and reports whether all
// that were run succeeded (and there was at least one). An executor that is
// not ready is named with its repair, and so is a task whose picture is not
// installed: what is not installed has not failed. One that crashes or must not
// be started has.
func (f *fleet) demo(ctx context.Context, status agentStatus) (good bool, err error) {
	c, err := f.dial()
	if err != nil {
		return false, err
	}
	defer func() { _ = c.Close() }()
	f.say("")
	f.say("Demo: real tasks, for each executor that is ready")
	var done []outcome
	good = true
	for _, e := range status.Executors {
		tasks, known := demoTasks[e.Name]
		switch {
		case e.broken():
			good = false
			f.say("  %s: cannot run: %s", e.Name, e.why())
			continue
		case known && !e.ready():
			f.say("  %s: not run, it is not ready: %s", e.Name, e.why())
			continue
		case !e.ready():
			continue // introduced with its reason
		case !known:
			f.say("  %s is ready; the demo has no task for it", e.Name)
			continue
		}
		for _, t := range tasks {
			o, err := f.demoTask(ctx, c, e.Name, t)
			var missing *engines.MissingError
			if errors.As(err, &missing) {
				f.say("  %s: %s ... not run: %v", e.Name, t.about, err)
				continue
			}
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			good = good && o.ok
			done = append(done, o)
		}
	}
	if len(done) == 0 {
		f.say("  no executor is ready, so there is nothing to show")
		return false, nil
	}
	f.say("")
	f.table(done)
	f.say("")
	var files []string
	for _, o := range done {
		files = append(files, o.files...)
	}
	f.say("Files in %s: %s", f.folder.path("demo"), strings.Join(files, ", "))
	return good, nil
}

// demoTask runs one task and saves what it leaves. The error is a
// *engines.MissingError where its picture is not installed, and that of ctx when
// it is done; other failures are part of the outcome.
func (f *fleet) demoTask(ctx context.Context, c *client.Client, executor string, t demoTask) (outcome, error) {
	o := outcome{task: executor + " " + t.name}
	s, err := f.submission(ctx, c, t)
	if err != nil {
		var missing *engines.MissingError
		if errors.As(err, &missing) {
			return o, err
		}
		o.result = "FAILED: " + err.Error()
		return o, nil
	}
	begin := time.Now()
	show := follow.New(f.o.Out, fmt.Sprintf("  %s: %s", executor, t.about))
	document, err := runDemo(ctx, c, s, show)
	show.Close()
	o.took = time.Since(begin)
	o.worker = show.State().WorkerID
	if err == nil {
		o.files, err = f.keep(ctx, c, t, document)
	}
	if err != nil && ctx.Err() != nil {
		f.abandon(ctx, c, s.ID)
		f.say("  %s: %s ... stopped", executor, t.about)
		return o, ctx.Err()
	}
	if err != nil {
		o.result = "FAILED: " + err.Error()
		f.say("  %s: %s ... failed", executor, t.about)
		return o, nil
	}
	o.ok = true
	o.describe(t, document)
	f.say("  %s: %s ... done", executor, t.about)
	return o, nil
}

// submission is the task without retries: a demo shows what happens. Its
// picture is uploaded, as tasks submit --attach does.
func (f *fleet) submission(ctx context.Context, c *client.Client, t demoTask) (queue.Submission, error) {
	none := 0
	// The name is ours, so that the task can be cancelled whatever was answered.
	s := queue.Submission{ID: "demo-" + strings.ToLower(rand.Text()), Type: t.typ, MaxRetries: &none, Labels: map[string]string{"demo": "true"}}
	payload := map[string]any{}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(t.payload, "{site}", f.site.url())), &payload); err != nil {
		return s, fmt.Errorf("read the payload: %w", err)
	}
	if t.picture != "" {
		dir, err := engines.Locate().DataSet("sample-pictures")
		if err != nil {
			return s, err
		}
		sum, err := c.PutArtifact(ctx, filepath.Join(dir, t.picture))
		if err != nil {
			return s, err
		}
		payload["image"] = map[string]string{"artifact": "sha256:" + sum}
	}
	var err error
	s.Payload, err = json.Marshal(payload)
	return s, err
}

func runDemo(ctx context.Context, c *client.Client, s queue.Submission, show *follow.Follower) (json.RawMessage, error) {
	limited, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	receipt, err := c.Submit(limited, s)
	if err != nil {
		return nil, err
	}
	document, err := c.Wait(limited, receipt.ID, show.Event)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("it has not ended after %s (task %s)", demoPatience, receipt.ID)
	}
	return document, err
}

// abandon cancels a task that nobody waits for any more, so that the end of the
// fleet does not wait for it either.
func (f *fleet) abandon(ctx context.Context, c *client.Client, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := c.Cancel(ctx, id)
	if err != nil && !errors.Is(err, queue.ErrNotFound) && !errors.Is(err, queue.ErrConflict) {
		f.say("  task %s could not be cancelled: %v", id, err)
	}
}

// keep saves the files of a task under names that say what they show.
func (f *fleet) keep(ctx context.Context, c *client.Client, t demoTask, document json.RawMessage) (names []string, err error) {
	list, err := client.Artifacts(document)
	if err != nil {
		return nil, err
	}
	for i, a := range list {
		if better := t.files[a.Name]; better != "" {
			list[i].Name = better
		}
	}
	renamed, err := json.Marshal(map[string]any{"artifacts": list})
	if err != nil {
		return nil, fmt.Errorf("name the files: %w", err)
	}
	saved, err := c.SaveArtifacts(ctx, renamed, f.folder.path("demo"), true)
	for _, s := range saved {
		names = append(names, filepath.Base(s.Path))
	}
	return names, err
}

// table sums the demo up.
func (f *fleet) table(list []outcome) {
	rows := make([][]string, 0, len(list))
	for _, o := range list {
		files := strings.Join(o.files, ", ")
		if files == "" {
			files = "-"
		}
		rows = append(rows, []string{o.task, o.worker, fmt.Sprintf("%.2f s", o.took.Seconds()), o.result, files})
	}
	// A screen that is gone is no reason to fail.
	_ = cli.Table(f.o.Out, []string{"TASK", "WORKER", "TIME", "RESULT", "FILE"}, rows)
}
