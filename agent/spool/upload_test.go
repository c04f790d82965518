package spool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/internal/apiwire"
)

const testKey = "s3cret-internal-key"

// keeper is a control plane's artifact store behind a real TLS connection. Its
// fail function may answer a request first.
type keeper struct {
	*httptest.Server
	mu      sync.Mutex
	content map[string][]byte
	expires map[string]time.Time
	// promised is what it tells of all it has; zero: as an older one, nothing.
	promised time.Time
	query    url.Values
	puts     int
	fail     func(w http.ResponseWriter, r *http.Request, n int) bool
	calls    int
}

func startKeeper(t *testing.T, fail func(w http.ResponseWriter, r *http.Request, n int) bool) *keeper {
	k := &keeper{content: map[string][]byte{}, expires: map[string]time.Time{}, fail: fail}
	k.Server = httptest.NewUnstartedServer(http.HandlerFunc(k.serve))
	k.Config.ErrorLog = log.New(io.Discard, "", 0) // failing is what it is for
	k.StartTLS()
	t.Cleanup(k.Close)
	return k
}

func (k *keeper) serve(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	if k.fail != nil && k.fail(w, r, k.calls) {
		return
	}
	if r.Header.Get("X-Internal-API-Key") != testKey {
		http.Error(w, `{"detail":"unknown key"}`, http.StatusUnauthorized)
		return
	}
	sum := strings.TrimPrefix(r.URL.Path, "/api/artifacts/")
	switch r.Method {
	case http.MethodGet:
		c, ok := k.content[sum]
		if !ok {
			http.Error(w, `{"detail":"no such artifact"}`, http.StatusNotFound)
			return
		}
		_, _ = w.Write(c)
	case http.MethodHead:
		c, ok := k.content[sum]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(c)))
		w.Header().Set("Expires", k.expires[sum].UTC().Format(http.TimeFormat))
		if !k.promised.IsZero() {
			w.Header().Set(apiwire.HeaderPromised, k.promised.UTC().Format(http.TimeFormat))
		}
	case http.MethodPut:
		body, err := io.ReadAll(r.Body)
		digest := sha256.Sum256(body)
		if err != nil || hex.EncodeToString(digest[:]) != sum {
			http.Error(w, `{"detail":"digest mismatch"}`, http.StatusBadRequest)
			return
		}
		k.puts++
		k.query = r.URL.Query()
		ttl, _ := strconv.Atoi(k.query.Get("ttl_s"))
		k.content[sum], k.expires[sum] = body, time.Now().Add(time.Duration(ttl)*time.Second)
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"url": "/api/artifacts/" + sum, "expires_at": k.expires[sum]})
	}
}

func (k *keeper) uploader(t *testing.T, logger *zap.Logger, change ...func(*HTTPConfig)) *HTTPUploader {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, "key", []byte(testKey+"\n"))
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.Certificate().Raw})
	put(t, dir, "ca.pem", ca)
	cfg := HTTPConfig{
		URL: k.URL, CAFile: filepath.Join(dir, "ca.pem"), KeyFile: filepath.Join(dir, "key"),
		RetryMin: time.Millisecond, RetryMax: 10 * time.Millisecond,
	}
	for _, c := range change {
		c(&cfg)
	}
	if logger == nil {
		logger = zaptest.NewLogger(t)
	}
	u, err := NewHTTPUploader(cfg, logger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return u
}

func commitBy(ctx context.Context, t *testing.T, u Uploader, content []byte) (Record, error) {
	t.Helper()
	s := newSpool(t, func(c *Config) { c.Upload = u })
	put(t, prepare(t, s, "task"), "a.bin", content)
	records, err := s.Commit(ctx, "task", 1, []executors.Artifact{{Name: "a.bin", Kind: "tensor"}}, CommitOptions{TTL: time.Hour})
	if held, _ := os.ReadDir(s.holdDir()); len(held) != 0 {
		t.Errorf("left while committing: %v", held)
	}
	if err != nil {
		return Record{}, err
	}
	return records[0], nil
}

func TestUploadTriesAgainUntilTheControlPlaneIsBack(t *testing.T) {
	t.Parallel()
	k := startKeeper(t, func(w http.ResponseWriter, _ *http.Request, n int) bool {
		switch n {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2, 3:
			panic(http.ErrAbortHandler) // the connection breaks
		case 4:
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			return false
		}
		return true
	})
	content := []byte(strings.Repeat("x", 300<<10))
	rec, err := commitBy(t.Context(), t, k.uploader(t, nil), content)
	if err != nil {
		t.Fatal(err)
	}
	if string(k.content[rec.SHA256]) != string(content) || rec.URL != "/api/artifacts/"+rec.SHA256 {
		t.Errorf("record = %+v", rec)
	}
	if q := k.query; q.Get("name") != "a.bin" || q.Get("kind") != "tensor" || q.Get("media_type") != "application/octet-stream" || q.Get("ttl_s") != "3600" {
		t.Errorf("query = %v", q)
	}
}

func TestUploadSkipsWhatIsThereAlready(t *testing.T) {
	t.Parallel()
	k := startKeeper(t, nil)
	u := k.uploader(t, nil)
	content := []byte(strings.Repeat("x", 300<<10))
	for range 2 {
		if _, err := commitBy(t.Context(), t, u, content); err != nil {
			t.Fatal(err)
		}
	}
	if k.puts != 1 {
		t.Errorf("sent %d times, want once", k.puts)
	}
	for sum := range k.expires { // about to expire: must be sent again
		k.expires[sum] = time.Now().Add(time.Minute)
	}
	if _, err := commitBy(t.Context(), t, u, content); err != nil || k.puts != 2 {
		t.Errorf("sent %d times, %v; want twice", k.puts, err)
	}
}

func TestUploadGivesUpAtTheDeadline(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	k := startKeeper(t, func(w http.ResponseWriter, _ *http.Request, n int) bool {
		w.WriteHeader(http.StatusBadGateway)
		if n == 3 { // as when the task's time is over
			cancel(context.DeadlineExceeded)
		}
		return true
	})
	_, err := commitBy(ctx, t, k.uploader(t, nil), []byte("x"))
	if e := wantCode(t, err, executors.CodeArtifactUploadFailed, "502"); !e.Retryable {
		t.Error("must be retryable")
	}
}

func TestCancelledUploadIsCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	k := startKeeper(t, func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		cancel()
		w.WriteHeader(http.StatusBadGateway)
		return true
	})
	_, err := commitBy(ctx, t, k.uploader(t, nil), []byte("x"))
	wantCode(t, err, executors.CodeCancelled, "")
}

func TestUploadFailsAtOnceWhereTryingAgainIsNoUse(t *testing.T) {
	t.Parallel()
	answer := func(status int, detail string) func(http.ResponseWriter, *http.Request, int) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(map[string]string{"detail": detail})
			return true
		}
	}
	for _, tt := range []struct {
		name   string
		status int
		code   executors.Code
		want   string
	}{
		{"too large", 413, executors.CodeTooLarge, "quota_bytes"},
		{"bad request", 400, executors.CodeArtifactUploadFailed, "the reason"},
		{"not a control plane", 404, executors.CodeArtifactUploadFailed, "control.url"},
		{"a redirect is not followed", 302, executors.CodeArtifactUploadFailed, "control.url"},
		{"wrong key", 401, executors.CodeArtifactUploadFailed, "control.key_file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := startKeeper(t, answer(tt.status, "the reason"))
			_, err := commitBy(t.Context(), t, k.uploader(t, nil), []byte("x"))
			wantCode(t, err, tt.code, tt.want)
		})
	}
}

func TestOnlyThePinnedCertificateIsTrusted(t *testing.T) {
	t.Parallel()
	k := startKeeper(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	failed := zap.Hooks(func(e zapcore.Entry) error {
		if strings.HasPrefix(e.Message, "upload failed") { // as when the task's time is over
			cancel(context.DeadlineExceeded)
		}
		return nil
	})
	u := k.uploader(t, zaptest.NewLogger(t, zaptest.WrapOptions(failed)), func(c *HTTPConfig) { c.CAFile = "" })
	_, err := commitBy(ctx, t, u, []byte("x"))
	wantCode(t, err, executors.CodeArtifactUploadFailed, "control.ca_file")
	if k.calls != 0 {
		t.Error("a request reached a server that is not trusted")
	}
}

func TestTheKeyIsReadAtEachUseAndNeverLogged(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.DebugLevel)
	var u *HTTPUploader
	k := startKeeper(t, func(_ http.ResponseWriter, _ *http.Request, n int) bool {
		if n == 1 { // the first answer is 401: the file has an old key until now
			if err := os.WriteFile(u.cfg.KeyFile, []byte(testKey), 0o600); err != nil {
				t.Error(err)
			}
		}
		return false
	})
	u = k.uploader(t, zap.New(core))
	put(t, filepath.Dir(u.cfg.KeyFile), "key", []byte("an-old-key"))
	if _, err := commitBy(t.Context(), t, u, []byte("x")); err != nil {
		t.Fatal(err)
	}
	for _, l := range logs.All() {
		text := l.Message
		for _, f := range l.Context {
			text += f.String
			if err, ok := f.Interface.(error); ok {
				text += err.Error()
			}
		}
		if strings.Contains(text, testKey) || strings.Contains(text, "an-old-key") {
			t.Errorf("a key was logged: %s", text)
		}
	}
	if logs.Len() == 0 {
		t.Error("the failure was not logged")
	}
}

func TestSettingsOfTheUploadAreChecked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		cfg  HTTPConfig
		want string
	}{
		{"plain HTTP is refused", HTTPConfig{URL: "http://control:8001", KeyFile: "k"}, "https"},
		{"no host", HTTPConfig{URL: "control", KeyFile: "k"}, "not a URL"},
		{"no key", HTTPConfig{URL: "https://control:8443"}, "key_file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := NewHTTPUploader(tt.cfg, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to mention %q", err, tt.want)
			}
		})
	}
}

func TestAStalledUploadIsTriedAgain(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	k := startKeeper(t, nil)
	stuck := httptest.NewUnstartedServer(nil)
	first := make(chan struct{}, 1)
	first <- struct{}{}
	stuck.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-first:
			<-release // takes the request and never answers
		default:
			k.serve(w, r)
		}
	})
	stuck.TLS = k.TLS.Clone()
	stuck.StartTLS()
	t.Cleanup(stuck.Close)
	t.Cleanup(func() { close(release) })
	u := k.uploader(t, nil, func(c *HTTPConfig) { c.URL, c.Stall = stuck.URL, 2*time.Second })
	if _, err := commitBy(t.Context(), t, u, []byte("x")); err != nil {
		t.Fatal(err)
	}
}
