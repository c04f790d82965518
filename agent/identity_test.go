package agent

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/internal/leaktest"
	"github.com/autobot-fleet/autobot/queue"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestWorkerIDIsMadeOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := workerID("", dir, "npu-vm.lan")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^npu-vm-[0-9a-f]{8}$`).MatchString(first) {
		t.Errorf("got %q", first)
	}
	if again, err := workerID("", dir, "renamed"); err != nil || again != first {
		t.Errorf("the second start got %q, %v; want %q", again, err, first)
	}
	if given, err := workerID("mine", dir, "npu-vm"); err != nil || given != "mine" {
		t.Errorf("a configured id became %q, %v", given, err)
	}
	if other, err := workerID("", t.TempDir(), "npu-vm.lan"); err != nil || other == first {
		t.Errorf("another folder got the same id %q, %v", other, err)
	}
}

func TestBrokenWorkerIDNamesTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, workerIDFile)
	if err := os.WriteFile(path, []byte("not an id\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := workerID("", dir, "x"); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

func TestCleanHostFitsAWorkerID(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"npu-vm": "npu-vm", "npu.lan.example": "npu", "": "worker", "...": "worker", "-x-": "x",
		"käse brot": "k-se-brot", "A_b9": "A_b9", strings.Repeat("y", 300): strings.Repeat("y", maxHostPart),
	} {
		if got := cleanHost(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
		if err := queue.CheckWorkerID(cleanHost(in) + "-01234567"); err != nil {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestNodeIDTellsMachinesAndBootsApart(t *testing.T) {
	t.Parallel()
	root := func(machine, boot string) string {
		dir := t.TempDir()
		for name, text := range map[string]string{"etc/machine-id": machine, "proc/sys/kernel/random/boot_id": boot} {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	state := t.TempDir()
	base := nodeID(root("m", "b"), "h", state)
	if base != nodeID(root("m\n", "b\n"), "h", state) {
		t.Error("the same machine has two ids")
	}
	for name, other := range map[string]string{
		"machine": nodeID(root("n", "b"), "h", state), "boot": nodeID(root("m", "c"), "h", state),
		"host name": nodeID(root("m", "b"), "i", state), "shifted text": nodeID(root("mb", ""), "h", state),
		"machine without files": nodeID(t.TempDir(), "h", state), "state folder": nodeID(root("m", "b"), "h", t.TempDir()),
	} {
		if other == base {
			t.Errorf("another %s has the same id", name)
		}
	}
}

func TestStateFolderIsForOneAgent(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	lock, err := lockStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lockStateDir(dir)
	if err == nil || !strings.Contains(err.Error(), "another agent (pid ") || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second agent got: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lockStateDir(dir)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	_ = again.Close()
}
