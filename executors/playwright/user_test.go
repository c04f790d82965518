package playwright

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// nobody is the user that a root executor's browser runs as in these tests.
const nobody = 65534

// openDriver puts the driver where every user may read it.
func openDriver(t testing.TB, s *Settings) {
	t.Helper()
	base, err := os.MkdirTemp("/var/tmp", "autobot-driver-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(filepath.Join(s.DriverDir, "package"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(base, "package"), os.DirFS(real)); err != nil {
		t.Fatal(err)
	}
	s.DriverDir = base
}

// A root executor's browser runs as a user without rights, an ordinary user's
// as that user. Either is in its sandbox where the user may make one; where
// not, the one says so and the other does not start.
func TestTheBrowserRunsInItsSandboxWithoutRights(t *testing.T) {
	t.Parallel()
	url, _ := waiting(t)
	s := testSettings(t, strings.TrimPrefix(url, "http://"))
	s.BrowserUser = "nobody"
	openDriver(t, &s)
	root, want, try := os.Getuid() == 0, os.Getuid(), []string{"unshare", "--user", "true"}
	if root {
		want, try = nobody, append([]string{"setpriv", "--reuid", strconv.Itoa(nobody), "--clear-groups"}, try...)
	}
	possible := exec.Command(try[0], try[1:]...).Run() == nil
	e := newExecutor(t, s, egress.Options{})
	d, err := e.Describe(soon(t))
	if err != nil || !d.Ready || len(d.Reasons) != 0 {
		t.Fatalf("describe = %+v, %v", d, err)
	}
	result := e.do(t, `{"url":"`+url+`/","steps":[{"action":"screenshot"},{"action":"pdf"}]}`, nil)
	if !root && !possible {
		result.wants(t, executors.CodeEngineUnavailable, "user namespaces are switched off")
		return
	}
	result.good(t)
	if d, err := e.Describe(soon(t)); err != nil || !d.Ready || slices.Contains(d.Reasons, bareReason) == possible {
		t.Errorf("a sandbox is possible: %v; describe = %+v, %v", possible, d, err)
	}
	b := e.browserNow(t)
	for _, pid := range append(descendants(processes(), b.driver.pid), b.driver.pid) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // gone
		}
		if !strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t", want)) {
			t.Errorf("process %d does not run as user %d:\n%s", pid, want, status)
		}
		if !possible {
			continue
		}
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(line), "--no-sandbox") {
			t.Errorf("process %d has no sandbox", pid)
		}
		if isRenderer(pid) && !strings.Contains(string(status), "\nSeccomp:\t2") {
			t.Errorf("renderer %d has no system call filter", pid)
		}
	}
}
