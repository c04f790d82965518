package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/queue"
)

// submitFlags are the parts of a submission beside type and payload.
type submitFlags struct {
	priority, queue, id, uniqueKey, worker, runAt string
	maxRetries                                    int
	timeout, delay, resultTTL                     time.Duration
	exclude, labels, attach                       []string
	wait                                          bool
	saving                                        saving
}

func newTasksSubmit(env *environment, o *connection) *cobra.Command {
	f := &submitFlags{}
	c := &cobra.Command{
		Use:   "submit TYPE [JSON|@FILE|-]",
		Short: "Submit a task, or with - alone many from JSON lines",
		Long: "Submit a task. The payload is a JSON object: given as it is, read from a file (@FILE) or\n" +
			"from the standard input (-). Without one it is {}.\n\n" +
			"  autobot-control tasks submit tts '{\"text\":\"hello\"}' --wait --save .\n\n" +
			"--attach FIELD=FILE brings a file to the control plane and writes a reference to it into\n" +
			"the payload, where the executor finds it:\n\n" +
			"  autobot-control tasks submit vision '{\"op\":\"detect\"}' --attach image=cat.png --wait\n\n" +
			"With - alone, each line of the standard input is one submission as POST /api/tasks\n" +
			"takes it, and each line gets its answer; the exit code is 1 if one was refused:\n\n" +
			"  echo '{\"type\":\"general\",\"payload\":{\"op\":\"echo\",\"value\":1}}' | autobot-control tasks submit -\n\n" +
			"--wait shows progress and prints the result; the exit code is 1 if the task fails.",
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && args[0] == "-":
				if name := changedFlag(c, f); name != "" {
					return cli.Usagef("--%s is for one task; with - each line says everything itself", name)
				}
				return o.use(c.Context(), env, func(ctx context.Context, cl *client.Client) error { return submitLines(ctx, env, cl) })
			case len(args) == 0:
				return cli.Usagef("tasks submit needs the type of the task, or - for JSON lines (see tasks submit --help)")
			case len(args) > 2:
				return cli.Usagef("tasks submit takes a type and a payload, got %d arguments (put the JSON into single quotes)", len(args))
			}
			s, files, err := f.submission(c, env.Stdin, args)
			if err != nil {
				return err
			}
			return o.use(c.Context(), env, func(ctx context.Context, cl *client.Client) error {
				digests, err := uploadAll(ctx, cl, files)
				if err != nil {
					return err
				}
				if s.Payload, err = attach(s.Payload, files, digests); err != nil {
					return err
				}
				return submitOne(ctx, env, cl, s, f)
			})
		},
	}
	f.add(c)
	return c
}

func (f *submitFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.priority, "priority", "", "critical, high, normal (default) or low")
	flags.StringVar(&f.queue, "queue", "", "plain queue instead of the one of the type and priority")
	flags.StringVar(&f.id, "id", "", "id of the task, unique for ever (default: one is made)")
	flags.IntVar(&f.maxRetries, "max-retries", 0, "how often it may be queued again (default: as configured, 3)")
	flags.DurationVar(&f.timeout, "timeout", 0, "limit of one run, for example 90s (default: the executor's)")
	flags.DurationVar(&f.delay, "delay", 0, "do not start it before this time has passed")
	flags.StringVar(&f.runAt, "run-at", "", "do not start it before this moment (2026-12-24T18:00:00Z, or Unix seconds)")
	flags.DurationVar(&f.resultTTL, "result-ttl", 0, "how long the result can be read (default: as configured, 1h)")
	flags.StringVar(&f.uniqueKey, "unique-key", "", "refuse it while another task with this key has not ended")
	flags.StringSliceVar(&f.exclude, "exclude", nil, "workers that should not run it")
	flags.StringVar(&f.worker, "worker", "", "give it to this worker")
	flags.StringArrayVar(&f.labels, "label", nil, "k=v, for people; may be repeated")
	flags.BoolVar(&f.wait, "wait", false, "show its progress, print its result")
	flags.StringArrayVar(&f.attach, "attach", nil, "FIELD=FILE: upload a file that this field of the payload refers to; may be repeated")
	f.saving.add(c)
	_ = c.RegisterFlagCompletionFunc("priority", cobra.FixedCompletions([]string{"critical", "high", "normal", "low"}, cobra.ShellCompDirectiveNoFileComp))
}

// changedFlag names a flag of f that was given.
func changedFlag(c *cobra.Command, _ *submitFlags) string {
	for _, name := range []string{
		"priority", "queue", "id", "max-retries", "timeout", "delay", "run-at", "result-ttl", "unique-key", "exclude", "worker", "label", "attach", "wait", "save", "open",
	} {
		if c.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// submission builds what the command line asks for, and lists the files that
// belong into its payload.
func (f *submitFlags) submission(c *cobra.Command, stdin io.Reader, args []string) (queue.Submission, []attachment, error) {
	s := queue.Submission{
		ID: f.id, Type: args[0], Priority: queue.Priority(f.priority), Queue: f.queue, Timeout: f.timeout, Delay: f.delay,
		ResultTTL: f.resultTTL, UniqueKey: f.uniqueKey, Exclude: f.exclude, Worker: f.worker,
	}
	if err := f.saving.check(); err != nil {
		return s, nil, err
	}
	if f.saving.dir != "" && !f.wait {
		return s, nil, cli.Usagef("--save needs --wait: there is nothing to save before the task has ended (later: tasks result ID --save DIR)")
	}
	if c.Flags().Changed("max-retries") {
		s.MaxRetries = &f.maxRetries
	}
	if f.runAt != "" {
		if c.Flags().Changed("delay") {
			return s, nil, cli.Usagef("give --run-at or --delay, not both")
		}
		at, err := parseMoment(f.runAt)
		if err != nil {
			return s, nil, cli.Usagef("--run-at: %v", err)
		}
		s.RunAt = at
	}
	for _, l := range f.labels {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" {
			return s, nil, cli.Usagef("--label takes name=value, got %q", l)
		}
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		s.Labels[k] = v
	}
	if len(args) == 2 {
		payload, err := readPayload(args[1], stdin)
		if err != nil {
			return s, nil, err
		}
		s.Payload = payload
	}
	files, err := parseAttachments(f.attach)
	if err != nil {
		return s, nil, err
	}
	whole := s
	if whole.Payload, err = attach(s.Payload, files, nil); err != nil {
		return s, nil, err
	}
	if err := whole.Validate(); err != nil { // before anything is uploaded
		return s, nil, cli.Usagef("%v", err)
	}
	return s, files, nil
}

// parseMoment reads RFC 3339 text or Unix seconds.
func parseMoment(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || seconds < 0 || seconds > 1e11 {
		return time.Time{}, fmt.Errorf("must be a time with a zone as in 2026-12-24T18:00:00Z, or Unix seconds, got %q", text)
	}
	return time.UnixMicro(int64(seconds * 1e6)), nil
}

// readPayload takes the text itself, or reads what @FILE or - names.
func readPayload(arg string, stdin io.Reader) (json.RawMessage, error) {
	name, from := "the standard input", stdin
	switch {
	case arg == "-":
	case strings.HasPrefix(arg, "@"):
		name = arg[1:]
		file, err := os.Open(filepath.Clean(name))
		if err != nil {
			return nil, cli.Usagef("read the payload: %v", err)
		}
		defer func() { _ = file.Close() }()
		from = file
	default:
		if err := queue.CheckPayloadJSON([]byte(arg)); err != nil {
			return nil, cli.Usagef("%v (a payload from a file is @FILE, from the standard input -)", err)
		}
		return json.RawMessage(arg), nil
	}
	text, err := io.ReadAll(io.LimitReader(from, queue.MaxPayload+1))
	if err != nil {
		return nil, fmt.Errorf("read the payload from %s: %w", name, err)
	}
	if len(text) > queue.MaxPayload {
		return nil, cli.Usagef("payload: %s holds more than %d bytes: pass large input as an artifact", name, queue.MaxPayload)
	}
	if err := queue.CheckPayloadJSON(text); err != nil {
		return nil, cli.Usagef("%v (read from %s)", err, name)
	}
	return text, nil
}

// receiptView is the answer to a submission.
type receiptView struct {
	TaskID string       `json:"task_id,omitempty"`
	Queue  string       `json:"queue,omitempty"`
	Status queue.Status `json:"status,omitempty"`
}

func submitOne(ctx context.Context, env *environment, cl *client.Client, s queue.Submission, f *submitFlags) error {
	receipt, err := cl.Submit(ctx, s)
	if err != nil {
		return submitError(err)
	}
	if !f.wait {
		v := receiptView{receipt.ID, receipt.Queue, receipt.Status}
		if err := env.Print(v, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "task %s is %s in %s%s\n", receipt.ID, receipt.Status, receipt.Queue, notBefore(s))
			return err
		}); err != nil {
			return err
		}
		if env.Output == "table" && s.Worker == "" {
			if why := obstacle(ctx, cl, receipt.Queue); why != "" {
				_, _ = fmt.Fprintf(env.Stderr, "it waits: %s\n", why)
			}
		}
		return nil
	}
	document, err := awaitTask(ctx, env, cl, receipt)
	return showResult(ctx, env, cl, receipt.ID, document, err, &f.saving)
}

// notBefore says when a delayed task may start.
func notBefore(s queue.Submission) string {
	switch {
	case s.Delay > 0:
		return ", not before " + moment(time.Now().Add(s.Delay))
	case time.Until(s.RunAt) > 0:
		return ", not before " + moment(s.RunAt)
	}
	return ""
}

// submitError names the task that is in the way.
func submitError(err error) error {
	var duplicate *queue.DuplicateError
	switch {
	case errors.Is(err, queue.ErrExists):
		return fmt.Errorf("%w (ids are unique for ever: choose another one, or leave --id out)", err)
	case errors.As(err, &duplicate):
		return fmt.Errorf("%w (see it: autobot-control tasks show %s)", err, duplicate.ID)
	}
	return err
}
