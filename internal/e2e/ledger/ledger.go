package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

// Name of the executor, and of the task type that it serves.
const Name = "ledger"

// Settings are the keys of executors.ledger.
type Settings struct {
	File        string `json:"file"`        // the ledger, required
	Concurrency int    `json:"concurrency"` // tasks at once; default 1000
}

// Executor implements executors.Executor.
type Executor struct{ settings Settings }

// FromEnvironment builds the executor with the settings that the agent hands over.
func FromEnvironment() (executors.Executor, error) {
	s := Settings{Concurrency: 1000}
	if err := executors.Settings(&s); err != nil {
		return nil, err
	}
	return &Executor{settings: s}, nil
}

// The operations.
const (
	opSleep = "sleep" // ms
	opFail  = "fail"  // after ms
	opCrash = "crash" // after ms
	opHang  = "hang"  // deaf to its cancel and its deadline
	opAgent = "agent" // kills the agent after ms
	opBig   = "big"   // after ms, bytes of output
)

// Describe is ready once there is a ledger.
func (e *Executor) Describe(context.Context) (executors.Description, error) {
	var reasons []string
	if e.settings.File == "" {
		reasons = []string{"executors.ledger.file is not set"}
	}
	return executors.Description{
		Name: Name, Version: "1", Concurrency: e.settings.Concurrency, Ready: len(reasons) == 0, Reasons: reasons,
		Types: []executors.TypeDescription{{
			Type: Name, Ops: []string{opSleep, opFail, opCrash, opHang, opAgent, opBig}, DefaultTimeout: time.Hour,
		}},
	}, nil
}

type payload struct {
	MS    int64 `json:"ms"`
	Bytes int   `json:"bytes"`
	// Until is the last attempt that misbehaves; later ones only sleep. 0: all.
	Until    int64 `json:"until"`
	Progress bool  `json:"progress"`
	// Children makes it start two processes that last as long as the task.
	Children bool `json:"children"`
}

// Execute writes down the start, does what the payload says, and writes down
// the end.
func (e *Executor) Execute(ctx context.Context, task executors.Task) (executors.Result, error) {
	d, err := e.Describe(ctx)
	if err != nil {
		return executors.Result{}, err
	}
	op, err := executors.Op(task, d.Types[0])
	if err != nil {
		return executors.Result{}, err
	}
	var p payload
	if err := executors.DecodePayload(task, &p); err != nil {
		return executors.Result{}, err
	}
	if err := e.note(task, Start, os.Getpid()); err != nil {
		return executors.Result{}, err
	}
	if p.Until > 0 && task.Attempt > p.Until {
		op = opSleep
	}
	if err := e.do(ctx, task, op, p); err != nil {
		return executors.Result{Op: op}, err
	}
	if err := e.note(task, End, os.Getpid()); err != nil {
		return executors.Result{}, err
	}
	output := map[string]any{"attempt": task.Attempt}
	if op == opBig {
		output["blob"] = strings.Repeat("x", p.Bytes)
	}
	out, err := json.Marshal(output)
	return executors.Result{Op: op, Output: out}, err
}

func (e *Executor) do(ctx context.Context, task executors.Task, op string, p payload) error {
	if p.Children {
		kill, err := e.children(task)
		defer kill()
		if err != nil {
			return err
		}
	}
	if op == opHang {
		select {} // for ever
	}
	if err := work(ctx, task, p); err != nil {
		return err
	}
	switch op {
	case opFail:
		return executors.Errorf(executors.CodeEngineError, "it failed as asked")
	case opCrash:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case opAgent:
		_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
		select {}
	}
	return nil
}

func work(ctx context.Context, task executors.Task, p payload) error {
	total := time.Duration(p.MS) * time.Millisecond
	timer := time.NewTimer(total)
	defer timer.Stop()
	tick := make(<-chan time.Time)
	if p.Progress {
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		tick = ticker.C
	}
	began := time.Now()
	for {
		select {
		case <-timer.C:
			return nil
		case <-tick:
			task.Progress(executors.Progress{Percent: int(100 * time.Since(began) / total), Stage: "work"})
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// children starts one process in our group and one that leaves it.
func (e *Executor) children(task executors.Task) (kill func(), err error) {
	var started []*exec.Cmd
	kill = func() {
		for _, cmd := range started {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
		}
	}
	if err := executors.GuardChildren(); err != nil {
		return kill, err
	}
	for _, setsid := range []bool{false, true} {
		cmd := exec.Command("/bin/sleep", "86400")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: setsid}
		if err := cmd.Start(); err != nil {
			return kill, fmt.Errorf("start a child: %w", err)
		}
		started = append(started, cmd)
		if err := e.note(task, Child, cmd.Process.Pid); err != nil {
			return kill, err
		}
	}
	return kill, nil
}

func (e *Executor) note(task executors.Task, what string, pid int) error {
	return Append(e.settings.File, Entry{ID: task.ID, Attempt: task.Attempt, What: what, PID: pid, Time: time.Now()})
}
