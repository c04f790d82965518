// Command misbehave is an executor that does, on request, what executors must
// not do. It calls itself what its file is called.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

type settings struct {
	Start       string `json:"start"`      // exit1, garbage, hang
	ReadyFile   string `json:"ready_file"` // not ready before it exists
	Concurrency int    `json:"concurrency"`
	Processes   int    `json:"processes_wanted"`
}

type misbehave struct{ set settings }

func main() {
	var set settings
	if raw, err := os.ReadFile(os.Getenv(executors.EnvConfig)); err == nil {
		_ = json.Unmarshal(raw, &set)
	}
	switch set.Start {
	case "exit1":
		fmt.Fprintln(os.Stderr, "no licence found")
		os.Exit(1)
	case "garbage":
		fmt.Println("hello, I am an executor!")
		time.Sleep(time.Hour)
	case "hang":
		time.Sleep(time.Hour)
	}
	executors.Serve(&misbehave{set})
}

func (m *misbehave) Describe(context.Context) (executors.Description, error) {
	self, err := os.Executable()
	if err != nil {
		return executors.Description{}, err
	}
	info, err := os.Stat(self)
	if err != nil {
		return executors.Description{}, err
	}
	d := executors.Description{
		Name:        strings.TrimPrefix(filepath.Base(self), "autobot-executor-"),
		Version:     fmt.Sprintf("0.0.%d", info.Size()),
		Types:       []executors.TypeDescription{{Type: "mis", Ops: []string{"echo", "block", "crash"}}},
		Concurrency: max(m.set.Concurrency, 1),
		Processes:   m.set.Processes,
		Ready:       true,
	}
	if m.set.ReadyFile != "" {
		if _, err := os.Stat(m.set.ReadyFile); err != nil {
			d.Ready, d.Reasons = false, []string{"engine not found: create " + m.set.ReadyFile}
		}
	}
	return d, nil
}

func (m *misbehave) Execute(ctx context.Context, task executors.Task) (executors.Result, error) {
	var p struct {
		Op   string `json:"op"`
		File string `json:"file"`
	}
	if err := json.Unmarshal(task.Payload, &p); err != nil {
		return executors.Result{}, executors.Invalid("payload", "%v", err)
	}
	out := map[string]any{"pid": os.Getpid()}
	switch p.Op {
	case "echo":
	case "block": // until cancelled, or until the file exists
		task.Progress(executors.Progress{Percent: 1, Stage: "block"})
		for {
			if _, err := os.Stat(p.File); p.File != "" && err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return executors.Result{}, ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
	case "crash":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "panic":
		go panic("this executor is broken")
		select {}
	case "ignore_cancel":
		task.Progress(executors.Progress{Percent: 1, Stage: "ignore"})
		select {}
	case "spawn_child": // double life: it leaves the process group
		cmd := exec.Command("sleep", "999")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return executors.Result{}, err
		}
		out["child"] = cmd.Process.Pid
	case "escape": // a daemon: no environment, a session of its own, its parent gone
		text, err := exec.Command("env", "-i", "setsid", "sh", "-c", "sleep 999 >/dev/null 2>&1 & echo $!").Output()
		if err != nil {
			return executors.Result{}, err
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return executors.Result{}, err
		}
		out["child"] = pid
	case "print_stdout":
		fmt.Println("printed on stdout")
		cmd := exec.Command("sh", "-c", "echo printed by a child")
		cmd.Stdout = os.Stdout
		if err := cmd.Run(); err != nil {
			return executors.Result{}, err
		}
	case "big_line":
		line := strings.Repeat("x", 1<<20)
		fmt.Print(line)
		fmt.Fprint(os.Stderr, line)
		fmt.Fprintln(os.Stderr)
	case "odd_lines":
		for _, l := range []string{
			`{"@message":1}`, `{"@level":[]}`, `{"@timestamp":5}`, "\x00\x00\x00", "\xff\xfe", `{"level":"warn","ts":1.5,"msg":"from zap","n":7}`,
			`{"@level":"debug","@message":"from hclog"}`, `{"time":"x","level":"ERROR","msg":"from slog"}`, "{", "{}", "\x1b[31mred",
		} {
			fmt.Fprintln(os.Stderr, l)
		}
	case "env":
		out["env"] = os.Environ()
	case "big_output":
		out["data"] = strings.Repeat("y", 300<<10)
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return executors.Result{}, err
	}
	return executors.Result{Op: p.Op, Output: raw}, nil
}
