package general

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/autobot-fleet/autobot/executors"
)

// Name of the executor.
const Name = "general"

const (
	concurrency    = 1000 // the agent's worker.max_concurrent is the real limit
	defaultTimeout = time.Hour
	maxSleep       = 86_400_000 // milliseconds
)

// Settings are the keys of executors.general.
type Settings struct {
	// InputRoots are the folders below which hash_files may read, absolute.
	// Default: /data.
	InputRoots executors.InputRoots `json:"input_roots"`

	// Allow names what http_check may reach although it is not public: host
	// names, host:port, addresses, or networks as 10.0.0.0/8. Default: none.
	Allow []string `json:"allow"`
}

// Defaults are the settings of an agent that sets none.
func Defaults() Settings {
	return Settings{InputRoots: []string{"/data"}}
}

// Validate reports every mistake in the settings.
func (s Settings) Validate() error {
	var problems []error
	if err := s.InputRoots.Validate(); err != nil {
		problems = append(problems, err)
	}
	if _, err := newGuard(s.Allow); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// Executor implements executors.Executor.
type Executor struct {
	version  string
	settings Settings
	client   *http.Client
}

// New returns the executor. version is what Describe reports.
func New(version string, s Settings) (*Executor, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	g, err := newGuard(s.Allow)
	if err != nil {
		return nil, err
	}
	return &Executor{version: version, settings: s, client: g.client()}, nil
}

// No task leaves a file, so none needs a folder.
var types = []executors.TypeDescription{
	{Type: "general", Ops: []string{"echo", "sleep", "http_check"}, DefaultTimeout: defaultTimeout, MakesSpoolDir: true},
	{Type: "analysis", Ops: []string{"text_stats", "hash_files"}, DefaultTimeout: defaultTimeout, MakesSpoolDir: true},
}

// Describe is always ready: there is no engine that could be missing.
func (e *Executor) Describe(context.Context) (executors.Description, error) {
	return executors.Description{
		Name: Name, Version: e.version, Types: types, Concurrency: concurrency, Ready: true,
	}, nil
}

// Execute runs one operation.
func (e *Executor) Execute(ctx context.Context, task executors.Task) (executors.Result, error) {
	var typ executors.TypeDescription
	for _, t := range types {
		if t.Type == task.Type {
			typ = t
		}
	}
	op, err := executors.Op(task, typ)
	if err != nil {
		return executors.Result{}, err
	}
	var out any
	switch op {
	case "echo":
		out, err = echo(task)
	case "sleep":
		out, err = sleep(ctx, task)
	case "http_check":
		out, err = e.httpCheck(ctx, task)
	case "text_stats":
		out, err = textStats(task)
	case "hash_files":
		out, err = e.hashFiles(ctx, task)
	default:
		err = executors.Errorf(executors.CodeUnsupported, "type %q is not served by this executor", task.Type)
	}
	if err != nil {
		return executors.Result{Op: op}, err
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return executors.Result{Op: op}, fmt.Errorf("encode the output of %s: %w", op, err)
	}
	return executors.Result{Op: op, Output: raw}, nil
}

// echo returns its value.
func echo(task executors.Task) (any, error) {
	type output struct {
		Value json.RawMessage `json:"value"`
	}
	p := output{Value: json.RawMessage("null")}
	return &p, executors.DecodePayload(task, &p)
}

// sleep waits, with progress every second.
func sleep(ctx context.Context, task executors.Task) (any, error) {
	var p struct {
		MS int64 `json:"ms"`
	}
	if err := executors.DecodePayload(task, &p); err != nil {
		return nil, err
	}
	if p.MS < 0 || p.MS > maxSleep {
		return nil, executors.Invalid("ms", "must be 0 to %d, got %d", maxSleep, p.MS)
	}
	start, total := time.Now(), time.Duration(p.MS)*time.Millisecond
	timer, ticker := time.NewTimer(total), time.NewTicker(time.Second)
	defer timer.Stop()
	defer ticker.Stop()
	for {
		select {
		case <-timer.C:
			return map[string]int64{"slept_ms": time.Since(start).Milliseconds()}, nil
		case <-ticker.C:
			done := time.Since(start)
			task.Progress(executors.Progress{
				Percent: int(100 * done / total), Stage: "sleep", Done: done.Milliseconds(), Total: p.MS, Unit: "ms",
			})
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// textStats counts characters, words and lines.
func textStats(task executors.Task) (any, error) {
	var p struct {
		Text *string `json:"text"`
	}
	if err := executors.DecodePayload(task, &p); err != nil {
		return nil, err
	}
	if p.Text == nil {
		return nil, executors.Invalid("text", "is required")
	}
	lines := strings.Count(*p.Text, "\n")
	if *p.Text != "" && !strings.HasSuffix(*p.Text, "\n") {
		lines++
	}
	return map[string]int{
		"chars": utf8.RuneCountInString(*p.Text), "words": len(strings.Fields(*p.Text)), "lines": lines,
	}, nil
}

var _ executors.Executor = (*Executor)(nil)

// FromEnvironment builds the executor as its process does: with the settings
// that the agent hands over.
func FromEnvironment(version string) (executors.Executor, error) {
	s := Defaults()
	if err := executors.Settings(&s); err != nil {
		return nil, err
	}
	return New(version, s)
}
