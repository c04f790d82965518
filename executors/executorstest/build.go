package executorstest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const buildPrefix = "autobot-executorstest-"

// A build is made once per test process, whoever asks first.
type build struct {
	once sync.Once
	path string
	err  error
}

var (
	builds    sync.Map // package path -> *build
	buildDir  = sync.OnceValues(makeBuildDir)
	buildLock sync.Mutex // one compiler at a time is enough
)

// Build compiles the main package pkg, an import path, without cgo and returns
// the path of the binary. Each package is built once per test process.
func Build(t testing.TB, pkg string) string {
	t.Helper()
	entry, _ := builds.LoadOrStore(pkg, &build{})
	b := entry.(*build)
	b.once.Do(func() { b.path, b.err = compile(pkg) })
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.path
}

func compile(pkg string) (string, error) {
	buildLock.Lock()
	defer buildLock.Unlock()
	dir, err := buildDir()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, path.Base(pkg))
	cmd := exec.Command("go", "build", "-o", binary, pkg) // #nosec G204 -- a test names its own package
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return binary, nil
}

// makeBuildDir makes the folder of this process and removes those of test
// processes that have ended: no test knows that it is the last one.
func makeBuildDir() (string, error) {
	old, err := filepath.Glob(filepath.Join(os.TempDir(), buildPrefix+"*"))
	if err != nil {
		return "", err
	}
	for _, dir := range old {
		text, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), buildPrefix), "-")
		pid, err := strconv.Atoi(text)
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir)
		}
	}
	return os.MkdirTemp("", fmt.Sprintf("%s%d-", buildPrefix, os.Getpid()))
}
