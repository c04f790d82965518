package playwright

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestFilesOfKilledExecutorsAreSwept(t *testing.T) {
	t.Parallel()
	gone := exec.Command("/bin/true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	base := t.TempDir()
	old := filepath.Join(base, fmt.Sprintf("%s%d-123", tmpPrefix, gone.Process.Pid))
	own := filepath.Join(base, fmt.Sprintf("%s%d-456", tmpPrefix, os.Getpid()))
	for _, dir := range []string{old, own, filepath.Join(base, tmpPrefix+"x")} {
		if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sweepTmp(base)
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Error("the files of an executor that is gone are left")
	}
	if left, err := os.ReadDir(base); err != nil || len(left) != 2 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestTheBrowsersUserMustBeAbleToReadItsPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "cli.js")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !readable(file, browserUser{uid: os.Getuid()}) {
		t.Error("we cannot read our own file")
	}
	if readable(file, browserUser{uid: 65_001, gid: 65_001}) {
		t.Error("another user may read our file")
	}
	if !readable("/bin/sh", browserUser{uid: 65_001, gid: 65_001}) {
		t.Error("another user may not read /bin/sh")
	}
	if _, why := runsAs(browserUser{uid: 65_001, gid: 65_001, name: "other"}, paths{driver: dir, node: "/bin/sh", browser: "/bin/sh"}, "other"); why == "" && os.Getuid() == 0 {
		t.Error("it is not told why the browser runs as root")
	}
}
