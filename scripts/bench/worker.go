package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// workerCommand is the first argument with which the bench starts itself as a
// worker, so that each side's worker is a process of its own.
const workerCommand = "worker"

// workerFlags say what a worker is to do.
type workerFlags struct {
	system string
	addr   string // of the server
	dir    string // for its files
	id     string
	slots  int
	sleep  time.Duration
	stamp  bool // the result is the time of the task's start, in ns
}

func (w workerFlags) args() []string {
	return []string{
		workerCommand, "--system", w.system, "--addr", w.addr, "--dir", w.dir, "--id", w.id, "--slots", strconv.Itoa(w.slots),
		"--sleep", w.sleep.String(), "--stamp=" + strconv.FormatBool(w.stamp),
	}
}

// act is one task.
func (w workerFlags) act(ctx context.Context) (json.RawMessage, error) {
	if w.stamp {
		return json.RawMessage(fmt.Sprintf(`{"at":%d}`, time.Now().UnixNano())), nil
	}
	if w.sleep > 0 {
		select {
		case <-time.After(w.sleep):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return outcome, nil
}

// startWorker starts this program as the worker of a system.
func startWorker(b *bench, system string, w work) (*child, error) {
	return startWorkerWith(b, workerFlags{system: system, addr: b.redis.addr(), id: "bench", slots: w.slots, sleep: w.sleep})
}

func startWorkerWith(b *bench, f workerFlags) (*child, error) {
	var err error
	if f.dir, err = os.MkdirTemp(b.dir, f.system); err != nil {
		return nil, err
	}
	return startChild(f.dir, nil, b.self, f.args()...)
}

// runWorker is the worker process. It ends with SIGTERM.
func runWorker(args []string, stderr io.Writer) int {
	var w workerFlags
	flags := flag.NewFlagSet(workerCommand, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&w.system, "system", "", "")
	flags.StringVar(&w.addr, "addr", "", "")
	flags.StringVar(&w.dir, "dir", "", "")
	flags.StringVar(&w.id, "id", "", "")
	flags.IntVar(&w.slots, "slots", 1, "")
	flags.DurationVar(&w.sleep, "sleep", 0, "")
	flags.BoolVar(&w.stamp, "stamp", false, "")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	run := map[string]func(context.Context, workerFlags) error{"autobot": runOurs, "asynq": runAsynq}[w.system]
	if run == nil {
		_, _ = fmt.Fprintf(stderr, "no worker for %q\n", w.system)
		return 2
	}
	if err := run(ctx, w); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}
