// Command autobot-executor-primes is an example of an executor: it serves the
// task type "primes" with the operations count and list.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/autobot-fleet/autobot/executors"
)

const version = "1.0.0"

// settings are the keys of executors.primes in agent.yaml.
type settings struct {
	MaxLimit int64 `json:"max_limit"`
}

type executor struct{ settings }

// typ is what the executor serves; the first operation is the default.
var typ = executors.TypeDescription{Type: "primes", Ops: []string{"count", "list"}}

// Describe says what is served and whether it works here, now.
func (e executor) Describe(context.Context) (executors.Description, error) {
	return executors.Description{
		Name: "primes", Version: version, Types: []executors.TypeDescription{typ}, Concurrency: 2, Ready: true,
	}, nil
}

// Execute runs one task. It is called for many tasks at once.
func (e executor) Execute(ctx context.Context, task executors.Task) (executors.Result, error) {
	op, err := executors.Op(task, typ)
	if err != nil {
		return executors.Result{}, err
	}
	var p struct {
		Limit int64 `json:"limit"`
	}
	if err := executors.DecodePayload(task, &p); err != nil {
		return executors.Result{}, err
	}
	if p.Limit < 2 || p.Limit > e.MaxLimit {
		return executors.Result{}, executors.Invalid("limit", "must be 2 to %d, got %d", e.MaxLimit, p.Limit)
	}
	list := bufio.NewWriter(io.Discard)
	if op == "list" {
		file, err := os.Create(filepath.Join(task.SpoolDir, "primes.txt"))
		if err != nil {
			return executors.Result{}, fmt.Errorf("make the list: %w", err)
		}
		defer func() { _ = file.Close() }()
		list.Reset(file)
	}
	count, err := walk(ctx, task, p.Limit, list)
	if err != nil {
		return executors.Result{}, err
	}
	if err := list.Flush(); err != nil {
		return executors.Result{}, fmt.Errorf("write the list: %w", err)
	}
	if op == "list" { // announced when it does not change any more
		task.Artifact(executors.Artifact{Name: "primes.txt", Kind: "document", MediaType: "text/plain"})
	}
	output, err := json.Marshal(map[string]int64{"count": count})
	return executors.Result{Op: op, Output: output}, err
}

// walk writes each prime up to limit, and ends soon after ctx is done.
func walk(ctx context.Context, task executors.Task, limit int64, list io.Writer) (count int64, err error) {
	for n := int64(2); n <= limit; n++ {
		if n%10_000 == 0 {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			task.Progress(executors.Progress{Percent: int(100 * n / limit), Stage: "walk", Done: n, Total: limit})
		}
		if !prime(n) {
			continue
		}
		count++
		if _, err := fmt.Fprintln(list, n); err != nil {
			return 0, fmt.Errorf("write the list: %w", err)
		}
	}
	return count, nil
}

func prime(n int64) bool {
	for d := int64(2); d*d <= n; d++ {
		if n%d == 0 {
			return false
		}
	}
	return true
}

func main() {
	executors.ServeFunc("primes", version, func() (executors.Executor, error) {
		s := settings{MaxLimit: 1_000_000_000_000}
		if err := executors.Settings(&s); err != nil {
			return nil, err
		}
		return executor{s}, nil
	})
}
