package ovtest

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// DirsVariable names the folders of the runtimes to test with, separated by
// colons. Default: every release in the engine cache.
const DirsVariable = "AUTOBOT_TEST_OPENVINO_DIRS"

// Dirs lists the folders of the installed runtimes, the newest release first.
// Without any the test fails.
func Dirs(t testing.TB) []string {
	t.Helper()
	dirs := filepath.SplitList(os.Getenv(DirsVariable))
	if len(dirs) == 0 {
		for _, root := range engineRoots() {
			found, err := filepath.Glob(filepath.Join(root, "openvino", "*", "libopenvino_c.so.*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, library := range found {
				if dir := filepath.Dir(library); !slices.Contains(dirs, dir) {
					dirs = append(dirs, dir)
				}
			}
			if len(dirs) > 0 {
				break
			}
		}
		slices.SortFunc(dirs, func(a, b string) int {
			return slices.Compare(release(b), release(a))
		})
	}
	if len(dirs) == 0 {
		t.Fatalf("no OpenVINO runtime in %v: run scripts/setup, or set %s", engineRoots(), DirsVariable)
	}
	return dirs
}

// release is the numbers in a folder's name such as 2026.4.1.
func release(dir string) []int {
	var numbers []int
	for part := range strings.SplitSeq(filepath.Base(dir), ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// Dir is the folder of the newest installed runtime.
func Dir(t testing.TB) string {
	t.Helper()
	return Dirs(t)[0]
}

// engineRoots are the places where engines are installed, as the agent looks
// for them.
func engineRoots() []string {
	var roots []string
	if dir := os.Getenv("AUTOBOT_ENGINES_DIR"); dir != "" {
		roots = append(roots, dir)
	}
	roots = append(roots, "/var/lib/autobot/engines")
	if cache, err := os.UserCacheDir(); err == nil {
		roots = append(roots, filepath.Join(cache, "autobot", "engines"))
	}
	return roots
}
