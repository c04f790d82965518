package child_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors/child"
)

// niceOf reads the nice value of a process.
func niceOf(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[16])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestALoweredProcessIsNicerThanItsParent(t *testing.T) {
	t.Parallel()
	p, pids := startShell(t, "", `echo $$; exec sleep 900`, 1)
	ours := niceOf(t, os.Getpid())
	child.Lower(p.PID())
	child.Lower(p.PID()) // again changes nothing
	if n := niceOf(t, pids[0]); n != min(ours+10, 19) {
		t.Errorf("nice value %d, ours is %d", n, ours)
	}
	p.Kill()
	child.Lower(p.PID()) // gone: nothing happens
}
