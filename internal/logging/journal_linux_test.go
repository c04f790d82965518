package logging

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Environment variables are per process, so this test does not run in parallel.

func TestJournalGetsPriorities(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stream")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)

	t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", stat.Dev, stat.Ino))
	log, _, err := New(Config{Level: "debug"}, f)
	if err != nil {
		t.Fatal(err)
	}
	log = log.With() // loggers that were derived keep the prefix
	log.Debug("d")
	log.Info("i")
	log.Warn("w")
	log.Error("e")

	t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", stat.Dev, stat.Ino+1))
	other, _, err := New(Config{}, f)
	if err != nil {
		t.Fatal(err)
	}
	other.Info("not the journal's stream")

	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, prefix := range []string{"<7>{", "<6>{", "<4>{", "<3>{", "{"} {
		if !strings.HasPrefix(lines[i], prefix) {
			t.Errorf("line %q does not start with %q", lines[i], prefix)
		}
	}
}
