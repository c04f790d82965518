package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	if strings.HasPrefix(filepath.Base(os.Args[0]), executorFile) {
		serveExecutor()
		return
	}
	if len(os.Args) > 1 && os.Args[1] == workerCommand {
		os.Exit(runWorker(os.Args[2:], os.Stderr))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run measures the rows that were asked for and prints them. It returns the
// exit code: 1 when something could not be measured, 2 for a wrong command
// line. A goal that is missed is a figure, not an error.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("only", "", "rows to measure, separated by commas (default all): "+strings.Join(rowNames(), ", "))
	peers := flags.String("peers", strings.Join(peerNames(), ","), "peers to measure, separated by commas; none for none")
	flags.IntVar(&o.rounds, "rounds", 5, "rounds of each measurement")
	flags.BoolVar(&o.quick, "quick", false, "one round with few tasks: shows that all rows work, the figures mean little")
	write := flags.Bool("write", false, "put the figures into docs/performance.md")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if o.quick {
		o.rounds = 1
	}
	chosen, err := choose(*only, *peers, &o)
	if err == nil && (flags.NArg() > 0 || o.rounds < 1) {
		err = errors.New("want only flags, and at least one round (see --help)")
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, o, chosen, *write, stdout, stderr); err != nil {
		_, _ = fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

func measure(ctx context.Context, o options, chosen []row, write bool, stdout, stderr io.Writer) (err error) {
	b, err := newBench(o, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	var failed []error
	for _, r := range chosen {
		b.say("%s: %s", r.name, r.what)
		if err := r.run(ctx, b); err != nil {
			if ctx.Err() != nil { // what has been measured is printed all the same
				failed = append(failed, ctx.Err())
				break
			}
			failed = append(failed, fmt.Errorf("row %s: %w", r.name, err))
			b.say("%v", failed[len(failed)-1])
		}
	}
	_, _ = fmt.Fprint(stdout, b.table.String())
	if write && len(failed) == 0 {
		failed = append(failed, b.table.writeTo(filepath.Join(b.root, "docs", "performance.md"), len(chosen) == len(rows())))
	}
	return errors.Join(failed...)
}

// choose finds the rows and peers that are named.
func choose(only, peers string, o *options) ([]row, error) {
	for _, name := range words(peers) {
		if name == "none" {
			continue
		}
		if !slices.Contains(peerNames(), name) {
			return nil, fmt.Errorf("no peer is called %q (known: %s)", name, strings.Join(peerNames(), ", "))
		}
		o.peers = append(o.peers, name)
	}
	if only == "" {
		return rows(), nil
	}
	var out []row
	for _, name := range words(only) {
		i := slices.IndexFunc(rows(), func(r row) bool { return r.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no row is called %q (known: %s)", name, strings.Join(rowNames(), ", "))
		}
		out = append(out, rows()[i])
	}
	return out, nil
}

func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
