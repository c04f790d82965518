package spool

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"
	"golang.org/x/sys/unix"

	"github.com/autobot-fleet/autobot/executors"
)

func newSpool(t *testing.T, change ...func(*Config)) *Spool {
	t.Helper()
	dir := t.TempDir()
	cfg := Config{Dir: filepath.Join(dir, "spool"), StoreDir: filepath.Join(dir, "artifacts"), FreeMin: -1, ResultTTL: time.Second}
	for _, c := range change {
		c(&cfg)
	}
	s, err := New(cfg, zaptest.NewLogger(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func prepare(t *testing.T, s *Spool, id string) string {
	t.Helper()
	dir, err := s.Prepare(id, 1)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func put(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code executors.Code, part string) *executors.Error {
	t.Helper()
	var e *executors.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got error %v, want one with code %s", err, code)
	}
	if !strings.Contains(e.Error(), part) {
		t.Fatalf("error %q does not mention %q", e.Error(), part)
	}
	return e
}

func TestCommitKeepsAnArtifactLocally(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	dir := prepare(t, s, "task-1")
	content := []byte("RIFF and so on")
	put(t, dir, "speech.wav", content)

	before := time.Now().Truncate(time.Second)
	records, err := s.Commit(t.Context(), "task-1", 1, []executors.Artifact{
		{Name: "speech.wav", Kind: "audio", MediaType: "audio/wav", Meta: map[string]string{"voice": "en"}},
	}, CommitOptions{TTL: time.Hour, InlineMax: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	r := records[0]
	if r.Bytes != int64(len(content)) || r.Kind != "audio" || r.MediaType != "audio/wav" || r.Meta["voice"] != "en" {
		t.Errorf("record = %+v", r)
	}
	if r.URL != "/api/artifacts/"+r.SHA256 || len(r.SHA256) != 64 {
		t.Errorf("url = %q, sha256 = %q", r.URL, r.SHA256)
	}
	if got, _ := base64.StdEncoding.DecodeString(r.InlineBase64); !bytes.Equal(got, content) {
		t.Errorf("inline content = %q", got)
	}
	if r.ExpiresAt.Before(before.Add(time.Hour)) || r.ExpiresAt.After(time.Now().Add(time.Hour)) {
		t.Errorf("expires_at = %v, want an hour from now", r.ExpiresAt)
	}
	kept, err := os.ReadFile(filepath.Join(s.cfg.StoreDir, "sha256", r.SHA256[:2], r.SHA256))
	if err != nil || !bytes.Equal(kept, content) {
		t.Errorf("stored content = %q, %v", kept, err)
	}
	s.Discard("task-1", 1)
	if left, _ := filepath.Glob(filepath.Join(s.cfg.Dir, "[^.]*")); len(left) != 0 {
		t.Errorf("left in the spool: %v", left)
	}
	if held, _ := os.ReadDir(s.holdDir()); len(held) != 0 {
		t.Errorf("left while committing: %v", held)
	}
}

func TestCommitRefuses(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	put(t, filepath.Dir(secret), "secret", []byte("not for users"))
	small := func(c *Config) {
		c.Quotas = Quotas{Artifact: 1000, Kinds: map[string]int64{"audio": 10}, Task: 1500}
	}
	file := func(name string, n int) func(*testing.T, string) {
		return func(t *testing.T, dir string) { put(t, dir, name, make([]byte, n)) }
	}
	for _, tt := range []struct {
		name     string
		make     func(t *testing.T, dir string)
		announce []executors.Artifact
		code     executors.Code
		want     string
	}{
		{"an absolute name", nil, []executors.Artifact{{Name: secret}}, executors.CodeEngineError, "name"},
		{"a parent directory", nil, []executors.Artifact{{Name: "../x"}}, executors.CodeEngineError, "name"},
		{"dot dot", nil, []executors.Artifact{{Name: ".."}}, executors.CodeEngineError, "name"},
		{"a name with a directory", nil, []executors.Artifact{{Name: "a/b"}}, executors.CodeEngineError, "name"},
		{"an empty name", nil, []executors.Artifact{{}}, executors.CodeEngineError, "name"},
		{"a name of 101 bytes", nil, []executors.Artifact{{Name: strings.Repeat("a", 101)}}, executors.CodeEngineError, "name"},
		{"a name with a space", nil, []executors.Artifact{{Name: "a b"}}, executors.CodeEngineError, "name"},
		{"a missing file", nil, []executors.Artifact{{Name: "a"}}, executors.CodeEngineError, "not in the spool"},
		{"a symbolic link", func(t *testing.T, dir string) {
			if err := os.Symlink(secret, filepath.Join(dir, "a")); err != nil {
				t.Fatal(err)
			}
		}, []executors.Artifact{{Name: "a"}}, executors.CodeEngineError, "symbolic link"},
		{"a directory", func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, "a"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, []executors.Artifact{{Name: "a"}}, executors.CodeEngineError, "directory"},
		{"a FIFO", func(t *testing.T, dir string) {
			if err := unix.Mkfifo(filepath.Join(dir, "a"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, []executors.Artifact{{Name: "a"}}, executors.CodeEngineError, "FIFO"},
		{"a socket", func(t *testing.T, dir string) {
			d, err := os.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Close() })
			// The path itself may be too long for a socket.
			l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/a", d.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
		}, []executors.Artifact{{Name: "a"}}, executors.CodeEngineError, "regular"},
		{"an artifact over its quota", file("a", 1001), []executors.Artifact{{Name: "a"}}, executors.CodeTooLarge, "1001 bytes, the limit is 1000"},
		{"an artifact over the quota of its kind", file("a", 11), []executors.Artifact{{Name: "a", Kind: "audio"}}, executors.CodeTooLarge, "the limit is 10"},
		{"a task over its quota", func(t *testing.T, dir string) {
			file("a", 900)(t, dir)
			file("b", 900)(t, dir)
		}, []executors.Artifact{{Name: "a"}, {Name: "b"}}, executors.CodeTooLarge, "artifacts.task_mb"},
		{"a name announced twice", file("a", 1), []executors.Artifact{{Name: "a"}, {Name: "a"}}, executors.CodeEngineError, "twice"},
		{"a kind that is no word", file("a", 1), []executors.Artifact{{Name: "a", Kind: "../x"}}, executors.CodeEngineError, "kind"},
		{"a media type with a line break", file("a", 1), []executors.Artifact{{Name: "a", MediaType: "text/html\r\nX: y"}}, executors.CodeEngineError, "media type"},
		{"endless meta", file("a", 1), []executors.Artifact{{Name: "a", Meta: map[string]string{"k": strings.Repeat("v", 2000)}}}, executors.CodeEngineError, "meta"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSpool(t, small)
			dir := prepare(t, s, "task")
			if tt.make != nil {
				tt.make(t, dir)
			}
			records, err := s.Commit(t.Context(), "task", 1, tt.announce, CommitOptions{})
			e := wantCode(t, err, tt.code, tt.want)
			if e.Retryable || records != nil {
				t.Errorf("retryable = %v, records = %v", e.Retryable, records)
			}
			if n, _ := s.store.list(); len(n) != 0 {
				t.Errorf("%d artifacts were kept all the same", len(n))
			}
		})
	}
}

func TestCommitRefusesASwappedDirectory(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	dir := prepare(t, s, "task")
	elsewhere := t.TempDir()
	put(t, elsewhere, "a", []byte("not for users"))
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), "task", 1, []executors.Artifact{{Name: "a"}}, CommitOptions{}); err == nil {
		t.Error("a file behind a symbolic link to a directory was committed")
	}
}

func TestCommitCopiesAFileWithAnotherName(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	dir := prepare(t, s, "task")
	put(t, dir, "a", []byte("before"))
	other := filepath.Join(t.TempDir(), "b")
	if err := os.Link(filepath.Join(dir, "a"), other); err != nil {
		t.Fatal(err)
	}
	records, err := s.Commit(t.Context(), "task", 1, []executors.Artifact{{Name: "a"}}, CommitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Dir(other), "b", []byte("after!"))
	if got, _ := os.ReadFile(s.store.path(records[0].SHA256)); string(got) != "before" {
		t.Errorf("stored content changed to %q", got)
	}
}

func TestFullSpoolRefusesNewTasks(t *testing.T) {
	t.Parallel()
	s := newSpool(t, func(c *Config) { c.Quotas.Spool = 64 << 10 })
	dir := prepare(t, s, "first")
	put(t, dir, "big", bytes.Repeat([]byte("x"), 128<<10))
	s.usage.forget()

	_, err := s.Prepare("second", 1)
	e := wantCode(t, err, executors.CodeResourceExhausted, "artifacts.spool_mb")
	if !e.Retryable || e.Delay <= 0 {
		t.Errorf("retryable = %v, delay = %v", e.Retryable, e.Delay)
	}
	if reason, closed := s.Closed(); !closed || !strings.HasPrefix(reason, "disk") {
		t.Errorf("Closed() = %q, %v", reason, closed)
	}
	s.Discard("first", 1)
	if _, err := s.Prepare("second", 1); err != nil {
		t.Errorf("after cleaning: %v", err)
	}
}

func TestLittleFreeDiskClosesTheGate(t *testing.T) {
	t.Parallel()
	s := newSpool(t, func(c *Config) { c.FreeMin = 0 })
	s.free = func(string) (int64, error) { return 100 << 20, nil }
	if reason, closed := s.Closed(); !closed || !strings.Contains(reason, "100.0 MiB free") || !strings.Contains(reason, "1.0 GiB") {
		t.Errorf("Closed() = %q, %v", reason, closed)
	}
	wantCode(t, s.Preflight(), executors.CodeResourceExhausted, "limits.disk_free_mb")
	s.free = func(string) (int64, error) { return 2 << 30, nil }
	if err := s.Preflight(); err != nil {
		t.Errorf("with enough free: %v", err)
	}
}

func TestFullDiskIsResourceExhausted(t *testing.T) {
	t.Parallel()
	err := diskError(&os.PathError{Op: "write", Path: "x", Err: unix.ENOSPC}, "write x")
	wantCode(t, err, executors.CodeResourceExhausted, "no space left")
}

func TestNewSweepsWhatACrashLeft(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	dir := prepare(t, s, "task")
	put(t, dir, "half", []byte("x"))
	locked := filepath.Join(dir, "locked")
	if err := os.MkdirAll(filepath.Join(locked, "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	put(t, s.holdDir(), "artifact-1", []byte("x"))
	put(t, s.store.tmpDir(), "content-1", []byte("x"))

	again, err := New(s.cfg, zaptest.NewLogger(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{again.holdDir(), again.store.tmpDir()} {
		if left, _ := os.ReadDir(d); len(left) != 0 {
			t.Errorf("left in %s: %v", d, left)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(again.cfg.Dir, "[^.]*")); len(left) != 0 {
		t.Errorf("left in the spool: %v", left)
	}
}

func TestForeignTaskIDsStayInTheSpool(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	seen := map[string]bool{}
	for _, id := range []string{"..", ".", "../../etc", "a/b", "", "a\x00b", strings.Repeat("x", 300), ".commit", "ok-1", "sha256-x", "ünï"} {
		dir := prepare(t, s, id)
		if filepath.Dir(filepath.Dir(dir)) != s.cfg.Dir || seen[dir] {
			t.Errorf("id %q got the directory %s", id, dir)
		}
		seen[dir] = true
		s.Discard(id, 1)
	}
}

func TestOffloadAvoidsTakenNames(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	put(t, prepare(t, s, "task"), "output.json", []byte("the executor's own"))
	a, w, err := s.Offload("task", 1, []byte(`{"big":true}`))
	if err != nil {
		t.Fatal(err)
	}
	if a.Name != "output-1.json" || a.MediaType != "application/json" || w.Code != "OUTPUT_OFFLOADED" {
		t.Errorf("artifact = %+v, warning = %+v", a, w)
	}
	records, err := s.Commit(t.Context(), "task", 1, []executors.Artifact{a}, CommitOptions{})
	if err != nil || records[0].Bytes != 12 {
		t.Errorf("records = %+v, %v", records, err)
	}
}

func TestPrepareClearsWhatAFormerRunLeft(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "spool")
	s, err := New(Config{Dir: dir, StoreDir: t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := s.Prepare("t", 1)
		if err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(got); err != nil || len(left) != 0 {
			t.Fatalf("not an empty directory: %v, %v", left, err)
		}
		if err := os.WriteFile(filepath.Join(got, "old"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
