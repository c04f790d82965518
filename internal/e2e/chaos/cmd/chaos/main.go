// Command chaos is the program behind `make chaos`: see package chaos.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9/logging"

	"github.com/autobot-fleet/autobot/internal/e2e/chaos"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run ends with 0 when every invariant holds, 1 when one does not, 2 after a
// wrong flag and 130 when it was interrupted.
func run(args []string, out, errs io.Writer) int {
	logging.Disable() // servers that are away are what this is about
	var o chaos.Options
	var keep bool
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Float64Var(&o.Minutes, "minutes", 0, "how long faults happen (default 2, or as long as tasks take at the rate)")
	flags.Uint64Var(&o.Seed, "seed", 1, "decides the faults and the tasks")
	flags.IntVar(&o.Tasks, "tasks", 0, "how many tasks (default rate x 60 x minutes)")
	flags.Float64Var(&o.Rate, "rate", 0, "tasks a second (default 40)")
	flags.DurationVar(&o.Every, "every", 0, "mean time between faults (default 1s)")
	flags.IntVar(&o.Slots, "slots", 0, "tasks at once on each agent (default 16)")
	flags.StringVar(&o.Redis, "redis", "", "everysec (restarted), or always (killed too)")
	flags.StringVar(&o.Break, "break", "", "a move to break on purpose: ack, fence or lrem")
	flags.StringVar(&o.Dir, "dir", "", "a folder for logs and ledger (default a new one)")
	flags.BoolVar(&keep, "keep", false, "keep the folder of a good run too")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	made := o.Dir == ""
	if made {
		dir, err := os.MkdirTemp("", fmt.Sprintf("autobot-chaos-seed%d-", o.Seed))
		if err != nil {
			_, _ = fmt.Fprintln(errs, err)
			return 1
		}
		o.Dir = dir
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	var report *chaos.Report
	h, err := newHost(ctx, o.Dir)
	if err != nil {
		_, _ = fmt.Fprintln(errs, err)
		return 1
	}
	failures := h.run(func() { report = chaos.Run(h, o, out) })
	if report != nil {
		_, _ = fmt.Fprint(out, report)
	}
	for _, f := range failures {
		_, _ = fmt.Fprintln(errs, f)
	}
	switch {
	case ctx.Err() != nil:
		if made && !keep {
			_ = os.RemoveAll(o.Dir)
		}
		_, _ = fmt.Fprintln(errs, "interrupted; everything that was started has been ended")
		return 130
	case len(failures) > 0 || report == nil || report.Violations() > 0:
		_, _ = fmt.Fprintf(out, "logs, ledger and all violations: %s\n", o.Dir)
		return 1
	case made && !keep:
		_ = os.RemoveAll(o.Dir)
	}
	return 0
}
