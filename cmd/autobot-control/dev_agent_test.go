package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/autobot-fleet/autobot/internal/e2e"
)

// pidOf awaits a process of the fleet with text in its command line, another
// one than not, and returns its id.
func pidOf(t *testing.T, d *e2e.Dev, text string, not int) (found int) {
	t.Helper()
	e2e.Await(t, text+" runs", func() bool {
		if d.Ended() {
			t.Fatalf("dev has ended with %d", d.Wait())
		}
		for _, line := range d.Left() {
			pid, rest, _ := strings.Cut(line, " ")
			if n, err := strconv.Atoi(pid); err == nil && n != not && strings.Contains(rest, text) {
				found = n
				return true
			}
		}
		return false
	})
	return found
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %d: %v", pid, err)
	}
}

// An agent that is killed costs its task one attempt; the fleet goes on.
func TestDevStartsTheAgentAgain(t *testing.T) {
	t.Parallel()
	d := e2e.StartDev(t, e2e.Install(t, "general"), nil)
	d.AwaitUp()
	redis := pidOf(t, d, "redis-server", 0)
	if r := d.CLI("", "tasks", "submit", "general", `{"op":"sleep","ms":3000}`, "--id", "moved"); r.Code != 0 {
		t.Fatalf("submit: %+v", r)
	}
	e2e.Await(t, "the task runs", func() bool { return strings.Contains(d.CLI("", "tasks", "show", "moved").Stdout, "running") })
	kill(t, pidOf(t, d, "autobot-agent run", 0))
	for _, want := range []string{"The agent ended (signal: killed) and is started again", "The agent is back: worker "} {
		e2e.Await(t, want, func() bool { return strings.Contains(d.Output(), want) })
	}
	if r := d.CLI("", "tasks", "watch", "moved"); r.Code != 0 {
		t.Errorf("the task that ran: %+v", r)
	}
	if r := d.CLI("", "tasks", "show", "moved"); !strings.Contains(r.Stdout, "1 of 3") {
		t.Errorf("it did not run again as a retry: %s", r.Stdout)
	}
	if now := pidOf(t, d, "redis-server", 0); now != redis {
		t.Errorf("redis-server was process %d and is %d: it had to go on", redis, now)
	}
	d.Signal(syscall.SIGINT)
	if code := d.Wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left := d.Left(); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// One that dies again and again is given up, and the screen says first why.
func TestDevGivesAnAgentUp(t *testing.T) {
	t.Parallel()
	d := e2e.StartDev(t, e2e.Install(t, "general"), nil)
	d.AwaitUp()
	pid := 0
	for range 5 {
		pid = pidOf(t, d, "autobot-agent run", pid)
		kill(t, pid)
	}
	if code := d.Wait(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	cause := strings.Index(d.Output(), "the agent has ended 5 times within a minute: autobot-agent ended by itself (signal: killed); the end of "+filepath.Join(d.Dir, "logs", "agent.log"))
	if stopping := strings.Index(d.Output(), "Stopping"); cause < 0 || stopping < cause {
		t.Errorf("the cause is at %d, the end begins at %d", cause, stopping)
	}
	d.AwaitNoneLeft()
}

// ctrl-C in the demo ends its task too: nobody waits for it.
func TestDevStopsItsDemo(t *testing.T) {
	t.Parallel()
	d := e2e.StartDev(t, e2e.Install(t, "playwright"), nil, "--demo")
	e2e.Await(t, "the demo runs", func() bool { return strings.Contains(d.Output(), "open a page, take its picture and print it: ") })
	d.Signal(syscall.SIGINT)
	if code := d.Wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(d.Output(), "open a page, take its picture and print it ... stopped") || strings.Contains(d.Output(), "failed") {
		t.Error("it does not say that it was stopped")
	}
	d.Start()
	d.AwaitUp()
	if r := d.CLI("", "tasks", "list"); r.Code != 0 || !strings.Contains(r.Stdout, "cancelled") {
		t.Errorf("the task of the demo: %+v", r)
	}
	d.Signal(syscall.SIGINT)
	if code := d.Wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// What the examples of the manual need is printed, and tasks may use it.
func TestDevShowsPageAndPictures(t *testing.T) {
	t.Parallel()
	d := e2e.StartDev(t, e2e.Install(t, "general"), nil)
	d.AwaitUp()
	printed := func(name string) string {
		t.Helper()
		m := regexp.MustCompile(`(?m)^  ` + name + ` +([^\s,]+),`).FindStringSubmatch(d.Output())
		if m == nil {
			t.Fatalf("no line says where the %s is (scripts/setup installs the pictures)", name)
		}
		return m[1]
	}
	pictures := printed("pictures")
	if _, err := os.Stat(filepath.Join(pictures, "chelsea.png")); err != nil {
		t.Error(err)
	}
	for _, task := range [][]string{
		{"general", `{"op":"http_check","url":"` + printed("page") + `"}`},
		{"analysis", `{"op":"hash_files","paths":["` + pictures + `/coins.png"]}`},
	} {
		if r := d.CLI("", append(append([]string{"tasks", "submit"}, task...), "--wait")...); r.Code != 0 {
			t.Errorf("%v: %+v", task, r)
		}
	}
	d.Signal(syscall.SIGINT)
	if code := d.Wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
