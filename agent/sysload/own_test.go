package sysload

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

func TestBelongingFollowsParentsGroupsAndSessions(t *testing.T) {
	t.Parallel()
	all := []process{
		{pid: 1, parent: 0, group: 1, session: 1},
		{pid: 10, parent: 1, group: 10, session: 5}, // the agent, started from a shell
		{pid: 11, parent: 1, group: 10, session: 5}, // another job of that shell
		{pid: 20, parent: 10, group: 20, session: 5},
		{pid: 21, parent: 20, group: 20, session: 5},
		{pid: 22, parent: 1, group: 20, session: 5}, // its parent has ended
		{pid: 30, parent: 21, group: 30, session: 30},
		{pid: 31, parent: 1, group: 31, session: 30}, // in the session that 30 opened
		{pid: 40, parent: 1, group: 40, session: 40},
	}
	slices.Reverse(all) // the order must not matter
	var got []int
	for _, p := range belonging(all, 10) {
		got = append(got, p.pid)
	}
	slices.Sort(got)
	if want := []int{10, 20, 21, 22, 30, 31}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// burn starts a shell that keeps a processor busy, in a group of its own, and
// a child of it that only prints its pid; it returns when both run.
func burn(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", `sh -c 'echo started; while :; do :; done'; true`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the group that this test made
		_ = cmd.Wait()
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

func TestReadOwnCountsChildrenAndNobodyElse(t *testing.T) {
	t.Parallel()
	busy := burn(t)
	deadline := time.Now().Add(time.Minute)
	for used := 0.0; used < 0.2; {
		if time.Now().After(deadline) {
			t.Fatalf("a busy loop used %.2f s in a minute", used)
		}
		var err error
		if used, _, err = readOwn("/proc", busy); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // the kernel's clock is what is waited for
	}
	idle := exec.Command("sleep", "600")
	if err := idle.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = idle.Process.Kill(); _ = idle.Wait() })
	for { // for an instant of its start it has no memory of its own
		used, resident, err := readOwn("/proc", idle.Process.Pid)
		if err != nil || used > 0.1 {
			t.Errorf("an idle process used %.2f s, %v", used, err)
		}
		if resident > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("an idle process has no memory")
		}
		time.Sleep(time.Millisecond)
	}
	if used, _, err := readOwn("/proc", os.Getpid()); err != nil || used < 0.2 {
		t.Errorf("the parent of the busy loop used %.2f s, %v", used, err)
	}
}
