package devfleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestRuntimeFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(dir, "run"))
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	if r := Find(); r != nil {
		t.Fatalf("found %+v where there is none", r)
	}
	remove, published, err := Publish(Runtime{URL: "https://127.0.0.1:1", Dir: dir})
	if err != nil || !published {
		t.Fatalf("publish: %v, %v", published, err)
	}
	path := filepath.Join(dir, "run", "autobot", "dev.json")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the file: %v, %v", info, err)
	}
	if r := Find(); r == nil || r.PID != os.Getpid() || r.AgentConfig() != filepath.Join(dir, "agent.yaml") {
		t.Errorf("found %+v", r)
	}
	// A second fleet leaves the first one's file alone.
	removeSecond, published, err := Publish(Runtime{URL: "https://127.0.0.1:2"})
	if err != nil || published {
		t.Errorf("a second fleet: %v, %v", published, err)
	}
	removeSecond()
	if r := Find(); r == nil || r.URL != "https://127.0.0.1:1" {
		t.Errorf("found %+v", r)
	}
	// Another process that got the same number is not the fleet.
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	start := startTime(os.Getpid())
	if start == "" {
		t.Fatal("the start time of this process is unknown")
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), start, "1", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := Find(); r != nil {
		t.Errorf("a stale file is taken for a fleet: %+v", r)
	}
	remove()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
}
