package executorstest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/child"
)

// envActAsParent makes Run launch the executor and wait to be killed.
const envActAsParent = "AUTOBOT_EXECUTORSTEST_PARENT"

// orphaned runs this test binary again as the parent of an executor with a
// running task, kills it with SIGKILL and looks for what is left.
func orphaned(t *testing.T, b Binary) {
	names := strings.Split(t.Name(), "/")
	names = names[:len(names)-1] // the test that calls Run
	for i, name := range names {
		names[i] = "^" + regexp.QuoteMeta(name) + "$"
	}
	dir := t.TempDir() // a killed process does not clean up
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run="+strings.Join(names, "/")) // #nosec G204 -- ourselves
	cmd.Env = append(os.Environ(), envActAsParent+"="+dir, "TMPDIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	parent, err := child.Start(cmd, "")
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Kill()

	var report parentReport
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || json.Unmarshal([]byte(line), &report) != nil || report.Error != "" {
		t.Fatalf("the parent reported %q, %v", line, err)
	}
	defer func() { _ = os.RemoveAll(report.SocketDir) }()
	// Not parent.Kill, which would look for descendants itself: only the
	// parent dies, as under the kernel's OOM killer.
	if err := syscall.Kill(parent.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	Await(t, "the executor to follow its parent", func() bool {
		return gone(report.PID) && len(child.Marked(report.Mark)) == 0
	})
}

// gone reports that a process does not run any more; it may wait to be reaped.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z")
}

type parentReport struct {
	PID       int    `json:"pid"`
	Mark      string `json:"mark"`
	SocketDir string `json:"socket_dir"`
	Error     string `json:"error"`
}

// actAsParent launches the executor, gives it the long task, reports on
// standard output and waits to be killed. It never returns.
func actAsParent(b Binary) {
	report, err := beParent(b, os.Getenv(envActAsParent))
	if err != nil {
		report.Error = err.Error()
	}
	line, _ := json.Marshal(report)
	_, _ = fmt.Println(string(line))
	time.Sleep(Patience)
	os.Exit(1)
}

func beParent(b Binary, dir string) (parentReport, error) {
	p, err := launch(b, dir, func() string { return dir })
	if err != nil {
		return parentReport{}, err
	}
	report := parentReport{PID: p.PID(), Mark: p.Mark(), SocketDir: p.SocketDir}
	s, err := p.Process.Attach(context.Background())
	if err != nil {
		return report, err
	}
	_, err = s.Start(executors.Task{
		ID: "orphan", Attempt: 1, Type: b.Long.Type, Payload: json.RawMessage(b.Long.Payload), SpoolDir: dir,
	}, nil)
	if err != nil {
		return report, err
	}
	deadline := time.Now().Add(Patience)
	for time.Now().Before(deadline) {
		if h, err := p.Health(context.Background()); err != nil || h.InFlight == 1 {
			return report, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return report, errors.New("the long task did not start")
}
