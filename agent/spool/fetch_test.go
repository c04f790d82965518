package spool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
)

func sumOf(content []byte) string {
	h := sha256.Sum256(content)
	return hex.EncodeToString(h[:])
}

func TestFetchBringsWhatTheControlPlaneHas(t *testing.T) {
	t.Parallel()
	content := []byte(strings.Repeat("picture", 50_000))
	k := startKeeper(t, func(w http.ResponseWriter, _ *http.Request, n int) bool {
		switch n {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2: // cut in the middle
			w.Header().Set("Content-Length", "350000")
			_, _ = w.Write(content[:1000])
			panic(http.ErrAbortHandler)
		case 3: // damaged on the way
			_, _ = w.Write([]byte(strings.Repeat("pictore", 50_000)))
		default:
			return false
		}
		return true
	})
	k.content[sumOf(content)] = content
	s := newSpool(t, func(c *Config) { c.Upload = k.uploader(t, nil) })
	dir := prepare(t, s, "task")
	path, err := s.Fetch(t.Context(), dir, sumOf(content))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	s.Discard("task", 1)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the input stays behind: %v", err)
	}
}

func TestFetchTakesWhatTheAgentItselfKeeps(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	put(t, prepare(t, s, "first"), "a.bin", []byte("kept"))
	records, err := s.Commit(t.Context(), "first", 1, []executors.Artifact{{Name: "a.bin", Kind: "tensor"}}, CommitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path, err := s.Fetch(t.Context(), prepare(t, s, "second"), records[0].SHA256)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "kept" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestFetchOfWhatNobodyHasIsFinal(t *testing.T) {
	t.Parallel()
	k := startKeeper(t, nil)
	for name, tt := range map[string]struct {
		spool *Spool
		hint  string
	}{
		"control plane": {newSpool(t, func(c *Config) { c.Upload = k.uploader(t, nil) }), "upload it again"},
		"alone":         {newSpool(t), "set control.url, control.ca_file and control.key_file"},
	} {
		s := tt.spool
		dir := prepare(t, s, "task")
		_, err := s.Fetch(t.Context(), dir, sumOf([]byte("nothing")))
		if e := executors.AsError(err); e == nil || e.Code != executors.CodeNotFound || e.Retryable || !strings.Contains(e.Hint, tt.hint) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.Fetch(t.Context(), dir, "../../etc/passwd"); executors.AsError(err).Code != executors.CodeInvalidInput {
			t.Errorf("%s: a path is no checksum: %v", name, err)
		}
	}
}

func TestFetchEndsWithItsTask(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	k := startKeeper(t, func(w http.ResponseWriter, _ *http.Request, n int) bool {
		w.WriteHeader(http.StatusBadGateway)
		if n == 3 {
			cancel()
		}
		return true
	})
	s := newSpool(t, func(c *Config) { c.Upload = k.uploader(t, nil) })
	if _, err := s.Fetch(ctx, prepare(t, s, "task"), sumOf(nil)); err == nil {
		t.Error("it did not end")
	}
}
