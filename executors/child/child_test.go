package child_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors/child"
	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const patience = 60 * time.Second

// startShell runs a shell script and returns the pids that it prints.
func startShell(t *testing.T, mark, script string, pids int) (*child.Process, []int) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = in
	p, err := child.Start(cmd, mark)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	_ = in.Close()
	t.Cleanup(func() { _ = out.Close() })
	lines := bufio.NewReader(out)
	var found []int
	for range pids {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, pid)
	}
	return p, found
}

// running reports that pid is there and no zombie.
func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func wantGone(t *testing.T, pids []int) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		left := 0
		for _, pid := range pids {
			if running(pid) {
				left++
			}
		}
		if left == 0 {
			return
		}
	}
	t.Errorf("of %v some still run", pids)
}

func TestNothingOutlivesTheChild(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(*child.Process)
	}{
		{"when it ends by itself", func(p *child.Process) { p.Signal(syscall.SIGUSR1) }},
		{"when it is killed", (*child.Process).Kill},
		{"when it is stopped", func(p *child.Process) { p.Stop(50 * time.Millisecond) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			mark := "CHILD_TEST=" + strings.ReplaceAll(t.Name(), " ", "")
			// One child in the group that ignores SIGTERM, one out of the group.
			p, pids := startShell(t, mark, `
				trap 'exit 3' USR1; trap '' TERM
				sh -c 'trap "" TERM USR1; while :; do sleep 1; done' & echo $!
				setsid sh -c 'echo $$; exec sleep 900' &
				while :; do wait; done`, 2)
			tt.end(p)
			<-p.Done()
			wantGone(t, append(pids, p.PID()))
			if left := child.Marked(mark); len(left) != 0 {
				t.Errorf("processes with the mark are left: %v", left)
			}
			if child.GroupAlive(p.PID()) {
				t.Error("the group has members")
			}
			if p.State() == nil {
				t.Error("there is no exit state")
			}
		})
	}
}

func TestStopLetsTheChildEndByItself(t *testing.T) {
	t.Parallel()
	p, _ := startShell(t, "", `trap 'exit 5' TERM; echo 1; while :; do sleep 0.01; done`, 1)
	p.Stop(patience)
	if code := p.State().ExitCode(); code != 5 {
		t.Errorf("exit code = %d, want its own", code)
	}
	p.Kill() // again, after its end, is harmless
}

func TestStartTellsOfAMissingFile(t *testing.T) {
	t.Parallel()
	if _, err := child.Start(exec.Command("/nowhere"), ""); err == nil {
		t.Error("a missing file started")
	}
}

// TestParentDeathKillsTheChild runs this test again as a parent that starts a
// child from a goroutine which then ends its OS thread.
func TestParentDeathKillsTheChild(t *testing.T) {
	t.Parallel()
	if os.Getenv("CHILD_TEST_PARENT") != "" {
		beParent()
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestParentDeathKillsTheChild$") // #nosec G204 -- ourselves
	cmd.Env = append(os.Environ(), "CHILD_TEST_PARENT=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if !running(pid) {
		t.Error("the child died although its parent lives")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	wantGone(t, []int{pid})
}

func beParent() {
	started := make(chan *child.Process)
	for range 20 { // some of these run on threads that end with them
		go func() {
			p, err := child.Start(exec.Command("/bin/sleep", "900"), "")
			if err != nil {
				os.Exit(1)
			}
			started <- p
		}()
	}
	var first *child.Process
	for range 20 {
		first = <-started
	}
	_, _ = io.WriteString(os.Stdout, strconv.Itoa(first.PID())+"\n")
	time.Sleep(patience)
	os.Exit(1)
}
