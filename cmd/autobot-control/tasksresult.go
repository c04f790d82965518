package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/queue"
)

func newTasksResult(env *environment, o *connection) *cobra.Command {
	save := &saving{}
	c := &cobra.Command{
		Use:   "result ID",
		Short: "Print the result of a task, and save its files",
		Long: "Print the result of a completed task. For one that failed, the exit code is 1 and the\n" +
			"message says why. --save writes the files that the task left into a folder, --open\n" +
			"shows the first of them.",
		Args: oneID,
		RunE: func(c *cobra.Command, args []string) error {
			if err := save.check(); err != nil {
				return err
			}
			return o.use(c.Context(), env, func(ctx context.Context, cl *client.Client) error {
				document, err := cl.Result(ctx, args[0])
				return showResult(ctx, env, cl, args[0], document, err, save)
			})
		},
	}
	save.add(c)
	return c
}

// showResult prints what a task ended with and saves its files.
func showResult(ctx context.Context, env *environment, cl *client.Client, id string, document json.RawMessage, err error, save *saving) error {
	var failed *queue.FailedError
	if errors.As(err, &failed) {
		return showFailure(ctx, env, cl, id, failed, save)
	}
	if err != nil {
		return err
	}
	// The result is printed whatever becomes of its files.
	saved, err := saveFiles(ctx, cl, document, save.dir)
	if err := env.Print(document, func(w io.Writer) error { return printResult(w, document, saved) }); err != nil {
		return err
	}
	tellSaved(env, saved)
	if err == nil {
		save.show(env, saved)
	}
	return err
}

func saveFiles(ctx context.Context, cl *client.Client, document json.RawMessage, dir string) ([]client.Saved, error) {
	if dir == "" {
		return nil, nil
	}
	return cl.SaveArtifacts(ctx, document, dir, false)
}

// tellSaved names the files where stdout holds the document alone.
func tellSaved(env *environment, saved []client.Saved) {
	if env.Output == "table" {
		return
	}
	for _, s := range saved {
		_, _ = fmt.Fprintln(env.Stderr, "saved", s.Path)
	}
}

// showFailure ends a command about a task that ended without a result.
func showFailure(ctx context.Context, env *environment, cl *client.Client, id string, f *queue.FailedError, save *saving) error {
	saved, err := saveFiles(ctx, cl, f.Document, save.dir)
	for _, s := range saved {
		_, _ = fmt.Fprintln(env.Stderr, "saved", s.Path)
	}
	if env.Output != "table" && len(f.Document) > 0 {
		if err := env.Print(f.Document, nil); err != nil {
			return err
		}
	}
	if err != nil {
		_, _ = fmt.Fprintln(env.Stderr, "autobot-control:", err)
	}
	if f.Status == queue.StatusCancelled {
		return cli.Exitf(cli.ExitFailure, "task %s was cancelled", id)
	}
	var doc struct{ Error struct{ Hint string } }
	_ = json.Unmarshal(f.Document, &doc) // a foreign worker may have written anything
	text := f.Message
	if f.Code != "" && !strings.HasPrefix(text, f.Code) {
		text = f.Code + ": " + text
	}
	if hint := doc.Error.Hint; hint != "" && !strings.Contains(text, hint) {
		text += " (" + hint + ")"
	}
	return cli.Exitf(cli.ExitFailure, "task %s failed: %s", id, cli.Printable(text))
}

// resultDocument is what a result has beside the output of its operation.
type resultDocument struct {
	Artifacts []client.Artifact `json:"artifacts"`
	Meta      struct {
		Worker   string `json:"worker"`
		Attempt  int64  `json:"attempt"`
		Executor struct {
			Name          string `json:"name"`
			Version       string `json:"version"`
			Engine        string `json:"engine"`
			EngineVersion string `json:"engine_version"`
		} `json:"executor"`
		Timing struct {
			Total float64 `json:"total"`
		} `json:"timing_ms"`
		Warnings []struct{ Code, Message string } `json:"warnings"`
	} `json:"meta"`
}

// printResult writes the output as JSON, then the rest in words. A document
// of another shape (a foreign worker) is printed as it is.
func printResult(w io.Writer, document json.RawMessage, saved []client.Saved) error {
	var output map[string]json.RawMessage
	var doc resultDocument
	if json.Unmarshal(document, &output) != nil || json.Unmarshal(document, &doc) != nil || doc.Meta.Worker == "" {
		_, err := fmt.Fprintln(w, pretty(document))
		return err
	}
	delete(output, "artifacts")
	delete(output, "meta")
	text, err := json.MarshalIndent(output, "", "  ")
	if err != nil {
		return err
	}
	lines := []string{string(text)}
	for _, warning := range doc.Meta.Warnings {
		lines = append(lines, cli.Printable("warning: "+warning.Code+": "+warning.Message))
	}
	for i, a := range doc.Artifacts {
		line := fmt.Sprintf("file: %s (%s, %s)", a.Name, a.MediaType, size(a.Bytes))
		if i < len(saved) {
			line += ", saved as " + saved[i].Path
		}
		lines = append(lines, cli.Printable(line))
	}
	e := doc.Meta.Executor
	by := e.Name + " " + e.Version
	if e.Engine != "" {
		by += " with " + strings.TrimSpace(e.Engine+" "+e.EngineVersion)
	}
	lines = append(lines, cli.Printable(fmt.Sprintf("completed on %s by %s in %g ms", doc.Meta.Worker, by, doc.Meta.Timing.Total)))
	_, err = fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// size writes a number of bytes for people.
func size(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d bytes", n)
	case n < 10_000_000:
		return fmt.Sprintf("%d kB", n/1000)
	}
	return fmt.Sprintf("%d MB", n/1_000_000)
}
