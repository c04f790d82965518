package artifacts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLifetimesAreClampedAndOnlyGrow(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := openStore(t, Config{}, c)
	left := func(sha string) time.Duration {
		m, err := s.lookup(sha)
		if err != nil {
			t.Fatal(err)
		}
		return m.Expires.Sub(c.now()).Round(time.Second)
	}
	for ttl, want := range map[time.Duration]time.Duration{0: DefaultTTL, time.Second: MinTTL, 1000 * time.Hour: MaxTTL} {
		if got := left(put(t, s, fmt.Sprint("ttl", ttl), ttl)); got != want {
			t.Errorf("%v became %v, want %v", ttl, got, want)
		}
	}
	sha := put(t, s, "again", time.Hour)
	put(t, s, "again", 2*time.Hour)
	put(t, s, "again", time.Minute)
	if got := left(sha); got != 2*time.Hour {
		t.Errorf("lives %v, want two hours", got)
	}
}

func TestExpiredFilesGo(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := openStore(t, Config{SweepEvery: time.Millisecond}, c)
	short, long := put(t, s, "short", time.Minute), put(t, s, "long", time.Hour)
	c.pass(2 * time.Minute)
	if has(s, short) {
		t.Error("an expired file is served")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if n, _ := s.Usage(); n == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the sweeper does not remove the expired file")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.path(short)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still on disk: %v", err)
	}
	if !has(s, long) {
		t.Error("the other file is gone")
	}
}

func TestQuota(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := openStore(t, Config{QuotaBytes: 30}, c)
	a, b := put(t, s, "aaaaaaaaaa", 0), put(t, s, "bbbbbbbbbb", 0)
	x := put(t, s, "xxxxxxxxxx", time.Minute)

	_, _, err := s.Store(Upload{SHA256: sum([]byte("y")), Bytes: 1, Body: strings.NewReader("y")})
	if status(err) != 507 || !strings.Contains(err.Error(), "RESOURCE_EXHAUSTED") {
		t.Fatalf("a full store answers %v", err)
	}
	c.pass(2 * time.Minute)
	y := put(t, s, "yyyyyyyyyy", 0) // in place of the expired x
	if has(s, x) || !has(s, a) || !has(s, b) || !has(s, y) {
		t.Fatal("the expired file had to go first")
	}
	c.pass(DefaultResultTTL)
	f, _, err := s.open(a) // used just now
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	z := put(t, s, "zzzzzzzzzz", 0)
	if has(s, b) || !has(s, a) || !has(s, z) {
		t.Error("the least recently used file had to go")
	}
	if _, used := s.Usage(); used != 30 || s.reserved != 0 {
		t.Errorf("%d bytes are used, %d reserved", used, s.reserved)
	}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{FreeMin: 1000}, nil)
	s.free = func(string) (int64, error) { return 1005, nil }
	put(t, s, "12345", 0)
	_, _, err := s.Store(Upload{SHA256: sum([]byte("123456")), Bytes: 6, Body: strings.NewReader("123456")})
	if status(err) != 507 || !strings.Contains(err.Error(), "disk") {
		t.Errorf("got %v", err)
	}
	if free, err := freeBytes(s.cfg.Dir); err != nil || free <= 0 {
		t.Errorf("free space of a real folder: %d, %v", free, err)
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, Config{Dir: dir}, nil)
	whole, cut, bare := put(t, s, "whole", 2*time.Hour), put(t, s, "cut short", 0), put(t, s, "bare", 0)
	want, _ := s.lookup(whole)
	orphan := s.path(sum([]byte("orphan"))) + ".json"
	for _, err := range []error{
		os.WriteFile(filepath.Join(s.tmp(), "upload-1"), []byte("half"), 0o600),
		os.Truncate(s.path(cut), 3),
		os.WriteFile(sidecar(s.path(bare)), []byte("{"), 0o600),
		os.MkdirAll(filepath.Dir(orphan), 0o700),
		os.WriteFile(orphan, []byte("{}"), 0o600),
		os.WriteFile(filepath.Join(s.root(), "README"), []byte("not ours"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s = openStore(t, Config{Dir: dir}, nil)
	got, err := s.lookup(whole)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if has(s, cut) || !has(s, bare) {
		t.Errorf("cut file kept: %v, file without description kept: %v", has(s, cut), has(s, bare))
	}
	for _, p := range []string{filepath.Join(s.tmp(), "upload-1"), orphan, s.path(cut), sidecar(s.path(cut))} {
		if _, err := os.Stat(p); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there (%v)", p, err)
		}
	}
	if n, used := s.Usage(); n != 2 || used != int64(len("whole")+len("bare")) {
		t.Errorf("%d files, %d bytes", n, used)
	}
}
