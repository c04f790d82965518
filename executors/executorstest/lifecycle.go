package executorstest

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/child"
)

func drains(t *testing.T, b Binary) {
	p := Start(t, b)
	s := p.Attach(t)
	long := beginLong(t, p, s, b, "long")
	left, err := p.Drain(context.Background(), 50*time.Millisecond)
	if err != nil || left != 1 {
		t.Fatalf("drain with a running task = %d, %v; want 1", left, err)
	}
	if r := p.Do(t, s, "new", b.Tasks[0]); r.Err == nil || r.Err.Code != executors.CodeResourceExhausted {
		t.Errorf("a task for a draining executor ended with %+v, want RESOURCE_EXHAUSTED", r.Err)
	}
	if h, err := p.Health(context.Background()); err != nil || h.Ready {
		t.Errorf("health while draining = %+v, %v; want not ready", h, err)
	}
	if err := s.Cancel("long", 1); err != nil {
		t.Fatal(err)
	}
	long.Wait(t)
	if left, err := p.Drain(context.Background(), Patience); err != nil || left != 0 {
		t.Errorf("drain of an idle executor = %d, %v; want 0", left, err)
	}
	if err := syscall.Kill(p.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if exit := p.Exit(); exit.Code != 0 {
		t.Errorf("a drained executor ends at SIGTERM with %s, want exit code 0", exit)
	}
}

func shutsDown(t *testing.T, b Binary) {
	p := Start(t, b)
	s := p.Attach(t)
	long := beginLong(t, p, s, b, "long")
	if err := p.Shutdown(context.Background(), Patience); err != nil {
		t.Fatalf("shutdown: %v", err)
	}
	if r := long.Wait(t); r.Err == nil || r.Err.Code != executors.CodeCancelled {
		t.Errorf("the running task ended with %v, want CANCELLED", r.Err)
	}
	if exit := p.Exit(); exit.Code != 0 || exit.Signal != "" {
		t.Errorf("it ended with %s, want exit code 0", exit)
	}
	nothingLeft(t, p)
}

func killed(t *testing.T, b Binary) {
	p := Start(t, b)
	s := p.Attach(t)
	long := beginLong(t, p, s, b, "long")
	p.Kill()
	if r, ok := long.End(t); ok {
		t.Errorf("a killed executor delivered an outcome: %+v", r.Outcome)
	}
	if exit := p.Exit(); exit.Signal != "killed" || !exit.Killed {
		t.Errorf("exit = %+v, want killed by us", exit)
	}
	if _, err := p.Describe(context.Background()); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("describe after the end: %v, want an error that says so", err)
	}
	nothingLeft(t, p)
}

// nothingLeft checks that no process and no socket of p is there.
func nothingLeft(t *testing.T, p *Process) {
	t.Helper()
	if child.GroupAlive(p.PID()) {
		t.Errorf("process group %d still has members", p.PID())
	}
	if left := child.Marked(p.Mark()); len(left) > 0 {
		t.Errorf("processes that it started are left: %v", left)
	}
	Await(t, "the socket to be removed", func() bool {
		entries, err := os.ReadDir(p.SocketDir)
		return err == nil && len(entries) == 0
	})
}
