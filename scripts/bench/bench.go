package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// patience bounds each wait. Only something that hangs exceeds it.
const patience = 3 * time.Minute

type options struct {
	rounds int
	quick  bool
	peers  []string
}

// A row measures one thing and adds its lines to the table.
type row struct {
	name string
	what string // for people, in a few words
	run  func(context.Context, *bench) error
}

// rows are all rows in the order of the table.
func rows() []row {
	return slices.Concat([]row{
		{"noop", "tasks that do nothing, at 10, 50 and 200 slots", noopRow},
		{"sleep", "tasks of 1 ms and of 100 ms", sleepRow},
		{"process", "tasks that do nothing, through an executor process", processRow},
		{"submit", "tasks submitted one by one and in thousands", submitRow},
		{"latency", "submit to start on an idle agent", latencyRow},
		{"idle", "what an idle agent costs", idleRow},
		{"eight", "eight agents on one Redis", eightRow},
	}, burdenRows(), []row{
		{"payload", "tasks of 1 MiB", payloadRow},
		{"fleet", "one monitor and up to 10,000 workers", fleetRow},
		{"killed", "kill -9 of an agent with 100 tasks", killedRow},
		{"two", "two Redis servers against one", twoRow},
	})
}

func rowNames() []string {
	var out []string
	for _, r := range rows() {
		out = append(out, r.name)
	}
	return out
}

// bench is what the rows share: a server, a folder, and the table.
type bench struct {
	options
	root   string // of the repository
	dir    string // for everything that is written, removed at the end
	self   string // this program, to start workers from
	redis  *server
	table  *table
	stderr io.Writer
}

func newBench(o options, stderr io.Writer) (_ *bench, err error) {
	b := &bench{options: o, table: &table{}, stderr: stderr}
	if b.root, err = findRoot(); err != nil {
		return nil, err
	}
	if b.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return nil, err
	}
	if b.redis, err = startRedis(b.dir); err != nil {
		_ = os.RemoveAll(b.dir)
		return nil, err
	}
	return b, nil
}

func (b *bench) close() error {
	return errors.Join(b.redis.stop(), os.RemoveAll(b.dir))
}

func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.stderr, "%s %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

// count is n, or a small part of it in a quick run.
func (b *bench) count(n int) int {
	if b.quick {
		return max(n/20, 100)
	}
	return n
}

// few is n, or 1 in a quick run: for what takes a second each.
func (b *bench) few(n int) int {
	if b.quick {
		return 1
	}
	return n
}

// findRoot returns the folder of the repository, from the current folder
// upwards.
func findRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/autobot-fleet/autobot").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("find the product's module (run this with `go run .` in scripts/bench): %s", strings.TrimSpace(string(out)))
	}
	return filepath.Clean(strings.TrimSpace(string(out))), nil
}
