package executors

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/autobot-fleet/autobot/executors/child"
)

// guardArg makes an executor binary run as the guard of another one.
const guardArg = "--guard-children"

// guardSweep is how long the guard looks for processes that are left.
const guardSweep = 3 * time.Second

// Mark is the KEY=VALUE that an executor's children must carry in their
// environment to be found when everything of the executor has to go. They do
// when they inherit the environment; those that get a clean one need it added.
// Outside an executor process it is "".
func Mark() string {
	if value := os.Getenv(envMark); value != "" {
		return envMark + "=" + value
	}
	return ""
}

// GuardChildren is called by executors whose children start processes of
// their own. It starts, once, a small process that outlives the executor's
// death by any signal and kills whatever carries Mark. A direct child dies by
// its parent-death signal (package child); only deeper ones need this.
func GuardChildren() error { return guardOnce() }

var guardOnce = sync.OnceValue(func() error {
	mark := Mark()
	if mark == "" {
		return nil // not in an executor process
	}
	cmd := exec.Command("/proc/self/exe", guardArg) // #nosec G204 -- our own binary
	cmd.Dir = "/"
	cmd.Env = []string{} // without the mark
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the guard of child processes: %w", err)
	}
	cmd.Stdin = r
	err = cmd.Start()
	_ = r.Close()
	if err != nil {
		_ = w.Close()
		return fmt.Errorf("start the guard of child processes: %w", err)
	}
	go func() {
		_ = cmd.Wait() // it ends before us only when somebody kills it
		_ = w.Close()
	}()
	// The write end stays open as long as this process lives, however it ends.
	if _, err := fmt.Fprintln(w, mark); err != nil {
		return fmt.Errorf("tell the guard of child processes what to guard: %w", err)
	}
	return nil
})

// guardIfAsked turns the process into a guard when it was started as one.
func guardIfAsked() {
	if len(os.Args) == 2 && os.Args[1] == guardArg {
		guard(os.Stdin)
		os.Exit(0)
	}
}

// guard reads the mark, waits until the other end is closed and kills what
// carries the mark.
func guard(r io.Reader) {
	in := bufio.NewReader(r)
	mark, err := in.ReadString('\n')
	mark = strings.TrimSpace(mark)
	if err != nil || !strings.HasPrefix(mark, envMark+"=") {
		return
	}
	for !errors.Is(err, io.EOF) {
		_, err = in.ReadByte()
		if err != nil && !errors.Is(err, io.EOF) {
			return
		}
	}
	// The executor itself is on its way out and carries the mark too.
	for deadline := time.Now().Add(guardSweep); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		left := child.Marked(mark)
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
