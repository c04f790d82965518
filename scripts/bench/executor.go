package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

// executorFile is the name under which this program is an executor process.
// A number behind it is how many task types it serves: bench, bench2, bench3.
const executorFile = "autobot-executor-bench"

const opNoop = "noop"

// noopExecutor does in a process of its own what workerFlags.act does.
type noopExecutor struct {
	name     string
	types    int
	settings struct {
		Sleep time.Duration `json:"sleep"`
		Stamp bool          `json:"stamp"`
	}
}

func serveExecutor() {
	name := strings.TrimPrefix(filepath.Base(os.Args[0]), "autobot-executor-")
	executors.ServeFunc(name, "1", func() (executors.Executor, error) {
		e := &noopExecutor{name: name, types: 1}
		if n, err := strconv.Atoi(strings.TrimPrefix(name, taskType)); err == nil {
			e.types = n
		}
		return e, executors.Settings(&e.settings)
	})
}

// Describe is always ready. No task leaves a file, so none needs a folder.
func (e *noopExecutor) Describe(context.Context) (executors.Description, error) {
	d := executors.Description{Name: e.name, Version: "1", Concurrency: 1000, Ready: true}
	for i := range e.types {
		t := executors.TypeDescription{Type: taskType, Ops: []string{opNoop}, MakesSpoolDir: true}
		if i > 0 {
			t.Type = fmt.Sprint(taskType, i+1)
		}
		d.Types = append(d.Types, t)
	}
	return d, nil
}

// Execute does nothing, sleeps, or tells the time.
func (e *noopExecutor) Execute(ctx context.Context, _ executors.Task) (executors.Result, error) {
	out, err := workerFlags{sleep: e.settings.Sleep, stamp: e.settings.Stamp}.act(ctx)
	return executors.Result{Op: opNoop, Output: out}, err
}
