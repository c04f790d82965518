package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/queue"
)

func newTasksList(env *environment, o *connection) *cobra.Command {
	f := &filterFlags{}
	c := &cobra.Command{
		Use:   "list",
		Short: "List tasks: running ones first, then waiting, then ended ones",
		Args:  cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.limit < 0 {
				return cli.Usagef("--limit must be 0 (all) or more, got %d", f.limit)
			}
			if f.status != "" && !queue.Status(f.status).Known() {
				return cli.Usagef("--status must be one of queued, running, completed, failed, cancelled, got %q", f.status)
			}
			return o.use(c.Context(), env, func(ctx context.Context, cl *client.Client) error {
				tasks := []queue.Task{}
				for t, err := range cl.List(ctx, f.filter()) {
					if err != nil {
						return err
					}
					tasks = append(tasks, t)
				}
				if err := env.Print(tasks, func(w io.Writer) error { return printTasks(w, tasks) }); err != nil {
					return err
				}
				if env.Output == "table" && f.limit > 0 && len(tasks) == f.limit {
					_, _ = fmt.Fprintf(env.Stderr, "there may be more: --limit 0 lists all\n")
				}
				return nil
			})
		},
	}
	f.add(c, 50, "queued, running, completed, failed, cancelled")
	return c
}

// taskView is a task in full, as show prints it.
type taskView struct {
	queue.Task
	Payload  json.RawMessage `json:"payload,omitempty"`
	Timeout  float64         `json:"timeout,omitempty"` // seconds
	Progress json.RawMessage `json:"progress,omitempty"`
	Failure  json.RawMessage `json:"failure,omitempty"`
}

func newTasksShow(env *environment, o *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Print everything about one task",
		Args:  oneID,
		RunE: func(c *cobra.Command, args []string) error {
			return o.use(c.Context(), env, func(ctx context.Context, cl *client.Client) error {
				t, err := cl.Get(ctx, args[0])
				if err != nil {
					return err
				}
				v := taskView{Task: *t, Payload: t.Payload, Timeout: t.Timeout.Seconds()}
				if v.Progress, err = cl.Progress(ctx, t.ID); err != nil {
					return err
				}
				if v.Failure, err = cl.Failure(ctx, t.ID); err != nil {
					return err
				}
				return env.Print(v, func(w io.Writer) error { return printTask(w, v) })
			})
		},
	}
}

func printTask(w io.Writer, v taskView) error {
	retries := fmt.Sprintf("%d of %d", v.RetryCount, v.MaxRetries)
	if v.CrashCount+v.DeathCount > 0 {
		retries += fmt.Sprintf(" (%d crashes, %d deaths of workers)", v.CrashCount, v.DeathCount)
	}
	timeout := ""
	if v.Timeout > 0 {
		timeout = fmt.Sprintf("%g s", v.Timeout)
	}
	status := string(v.Status)
	if v.CancelRequested && !v.Status.Terminal() {
		status += ", asked to stop"
	}
	var labels []string
	for _, k := range slices.Sorted(maps.Keys(v.Labels)) {
		labels = append(labels, k+"="+v.Labels[k])
	}
	return fields(w, [][2]string{
		{"task", v.ID}, {"type", v.Type}, {"status", status}, {"priority", string(v.Priority)}, {"queue", v.Queue},
		{"worker", v.WorkerID}, {"worker before", v.PreviousWorker}, {"attempt", fmt.Sprint(v.Attempt)}, {"retries", retries},
		{"created", moment(v.CreatedAt)}, {"not before", moment(v.RunAt)}, {"started", moment(v.StartedAt)}, {"queued again", moment(v.RequeuedAt)},
		{"completed", moment(v.CompletedAt)}, {"failed", moment(v.FailedAt)}, {"deadline", moment(v.Deadline)}, {"timeout", timeout},
		{"unique key", v.UniqueKey}, {"excludes", strings.Join(v.Exclude, ", ")}, {"labels", strings.Join(labels, ", ")}, {"trace", v.Trace},
		{"error code", v.ErrorCode}, {"last error", v.LastError},
		{"payload", pretty(v.Payload)}, {"progress", pretty(v.Progress)}, {"failure", pretty(v.Failure)},
	})
}

// pretty indents JSON; other bytes stay as they are.
func pretty(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}
