package client_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/queue"
)

func writeTemp(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAFileBecomesAnArtifact(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	c := f.dial(t)
	ctx := limited(t)
	for name, content := range map[string]string{"cat.png": "a picture", "empty": "", "a name with blanks": "text"} {
		path := writeTemp(t, name, content)
		for range 2 { // the second time it is there
			got, err := c.PutArtifact(ctx, path)
			want := sha256.Sum256([]byte(content))
			if err != nil || got != hex.EncodeToString(want[:]) {
				t.Fatalf("%s: %q, %v", name, got, err)
			}
			body, err := c.Artifact(ctx, got)
			if err != nil {
				t.Fatalf("%s: read it back: %v", name, err)
			}
			back, err := io.ReadAll(body)
			_ = body.Close()
			if err != nil || string(back) != content {
				t.Errorf("%s: came back as %q, %v", name, back, err)
			}
		}
	}
	if _, err := f.connect(t).PutArtifact(ctx, writeTemp(t, "x", "x")); !errors.Is(err, client.ErrUnsupported) {
		t.Errorf("upload on Redis: %v", err)
	}
	if _, err := c.PutArtifact(ctx, filepath.Join(t.TempDir(), "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := c.PutArtifact(ctx, t.TempDir()); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a folder: %v", err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PutArtifact(ctx, fifo); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a pipe: %v", err)
	}
}

func TestAFileAboveTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	path := writeTemp(t, "large.bin", "")
	if err := os.Truncate(path, 100<<20+1); err != nil { // without blocks on disk
		t.Fatal(err)
	}
	_, err := f.dial(t).PutArtifact(limited(t), path)
	var invalid *queue.InvalidError
	if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "large.bin") || !strings.Contains(err.Error(), "TOO_LARGE") {
		t.Errorf("got %v", err)
	}
}

// store is a control plane that counts what it is sent.
type store struct {
	kept     time.Duration // of what HEAD says; 0: it has nothing
	status   int           // of the answer to PUT
	puts     atomic.Int64
	received atomic.Int64
	query    atomic.Value
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodHead && s.kept == 0:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodHead:
		w.Header().Set(apiwire.HeaderPromised, time.Now().Add(s.kept).UTC().Format(http.TimeFormat))
	case s.status != http.StatusOK:
		s.puts.Add(1)
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, `{"detail":"no room"}`)
	default:
		s.puts.Add(1)
		s.query.Store(r.URL.RawQuery)
		n, _ := io.Copy(io.Discard, r.Body)
		s.received.Store(n)
	}
}

func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		kept time.Duration
		puts int64
	}{
		{"a file that is not there", 0, 1},
		{"not one that is kept for days", 7*24*time.Hour - time.Minute, 0},
		{"one that might go before the task starts", 24 * time.Hour, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &store{kept: tt.kept, status: http.StatusOK}
			path := writeTemp(t, "in.png", strings.Repeat("x", 3<<20))
			if _, err := dialStore(t, s).PutArtifact(limited(t), path); err != nil {
				t.Fatal(err)
			}
			if s.puts.Load() != tt.puts || s.received.Load() != tt.puts*3<<20 {
				t.Errorf("%d uploads, the last one with %d bytes", s.puts.Load(), s.received.Load())
			}
			if tt.puts > 0 && s.query.Load() != "name=in.png&result_ttl_s=604800&ttl_s=604800" {
				t.Errorf("asked for %v", s.query.Load())
			}
		})
	}
}

func TestARefusalIsHeardBeforeTheFileIsSent(t *testing.T) {
	t.Parallel()
	s := &store{status: http.StatusInsufficientStorage}
	_, err := dialStore(t, s).PutArtifact(limited(t), writeTemp(t, "in.png", strings.Repeat("x", 32<<20)))
	if err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("got %v", err)
	}
}

func dialStore(t *testing.T, s *store) *client.Client {
	t.Helper()
	srv := httptest.NewTLSServer(s)
	t.Cleanup(srv.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	c, err := client.Dial(client.Options{URL: srv.URL, CAFile: writeTemp(t, "ca.crt", string(ca))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
