package artifacts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// clock is a time that tests move.
type clock struct{ ns atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ns.Store(time.Now().UnixNano())
	return c
}
func (c *clock) now() time.Time       { return time.Unix(0, c.ns.Load()) }
func (c *clock) pass(d time.Duration) { c.ns.Add(int64(d)) }

func openStore(t *testing.T, cfg Config, c *clock) *Store {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if cfg.FreeMin == 0 {
		cfg.FreeMin = -1
	}
	s, err := New(cfg, zap.NewNop(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if c != nil {
		s.now = c.now
	}
	return s
}

func sum(b []byte) string { h := sha256.Sum256(b); return hex.EncodeToString(h[:]) }

func put(t *testing.T, s *Store, content string, ttl time.Duration) string {
	t.Helper()
	sha := sum([]byte(content))
	if _, _, err := s.Store(Upload{SHA256: sha, Bytes: int64(len(content)), Body: strings.NewReader(content), TTL: ttl}); err != nil {
		t.Fatal(err)
	}
	return sha
}

func has(s *Store, sha string) bool { _, err := s.lookup(sha); return err == nil }

func status(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// serve puts the store behind a real connection, as control/api does.
func serve(t *testing.T, s *Store, change ...func(*http.Server)) string {
	t.Helper()
	handle := func(f func(http.ResponseWriter, *http.Request, string) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if err := f(w, r, r.PathValue("sha256")); err != nil {
				code := status(err)
				if code == 0 {
					code = 500
				}
				http.Error(w, err.Error(), code)
			}
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/artifacts/{sha256}", handle(s.Get))
	mux.HandleFunc("PUT /api/artifacts/{sha256}", handle(s.Put))
	srv := httptest.NewUnstartedServer(mux)
	for _, c := range change {
		c(srv.Config)
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL + "/api/artifacts/"
}

func do(t *testing.T, method, url string, body io.Reader, header map[string]string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return res, string(b)
}

func TestUploadAndDownload(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{}, nil)
	base := serve(t, s)
	content := bytes.Repeat([]byte("wave "), 40_000)
	sha := sum(content)

	for range 2 { // the second time changes nothing
		res, body := do(t, "PUT", base+sha+"?name=speech.wav&kind=audio&media_type=audio%2Fwav&ttl_s=7200", bytes.NewReader(content), map[string]string{"Content-Type": "application/octet-stream"})
		var reply apiwire.ArtifactReply
		if err := json.Unmarshal([]byte(body), &reply); err != nil || res.StatusCode != 200 {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
		want := apiwire.ArtifactReply{SHA256: sha, Bytes: int64(len(content)), Name: "speech.wav", Kind: "audio", MediaType: "audio/wav", URL: "/api/artifacts/" + sha, ExpiresAt: reply.ExpiresAt}
		if d := cmp.Diff(want, reply); d != "" {
			t.Error(d)
		}
		if left := time.Until(reply.ExpiresAt); left > 2*time.Hour || left < time.Hour {
			t.Errorf("expires in %v, want two hours", left)
		}
	}
	if n, used := s.Usage(); n != 1 || used != int64(len(content)) {
		t.Errorf("the store counts %d files, %d bytes", n, used)
	}

	res, body := do(t, "GET", base+sha, nil, nil)
	if res.StatusCode != 200 || body != string(content) {
		t.Fatalf("%d, %d bytes", res.StatusCode, len(body))
	}
	for name, want := range map[string]string{
		"Content-Type": "audio/wav", "Content-Disposition": "attachment; filename=speech.wav",
		"X-Content-Type-Options": "nosniff", "ETag": `"` + sha + `"`,
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if e, err := http.ParseTime(res.Header.Get("Expires")); err != nil || time.Until(e) < time.Hour {
		t.Errorf("Expires: %v, %v", e, err)
	}
	if cc := res.Header.Get("Cache-Control"); !strings.HasPrefix(cc, "private, max-age=") || !strings.HasSuffix(cc, "immutable") {
		t.Errorf("Cache-Control: %q", cc)
	}
	if res, body := do(t, "GET", base+sha, nil, map[string]string{"Range": "bytes=5-8"}); res.StatusCode != 206 || body != "wave" {
		t.Errorf("range: %d %q", res.StatusCode, body)
	}
	if res, _ := do(t, "GET", base+sha, nil, map[string]string{"Range": "bytes=9999999-"}); res.StatusCode != 416 {
		t.Errorf("range beyond the end: %d", res.StatusCode)
	}
	if res, _ := do(t, "GET", base+sha, nil, map[string]string{"If-None-Match": `"` + sha + `"`}); res.StatusCode != 304 {
		t.Errorf("condition: %d", res.StatusCode)
	}
	if res, body := do(t, "HEAD", base+sha, nil, nil); res.StatusCode != 200 || body != "" || res.ContentLength != int64(len(content)) {
		t.Errorf("HEAD: %d %q %d", res.StatusCode, body, res.ContentLength)
	}
	if res, _ := do(t, "GET", base+sha+"?name=other.wav", nil, nil); res.Header.Get("Content-Disposition") != "attachment; filename=other.wav" {
		t.Errorf("another name: %q", res.Header.Get("Content-Disposition"))
	}
}

func TestUploadsThatAreRefused(t *testing.T) {
	t.Parallel()
	content := []byte("content")
	sha := sum(content)
	for _, tt := range []struct {
		name, path string
		body       io.Reader
		status     int
		want       string
	}{
		{"another digest", sum([]byte("x")), bytes.NewReader(content), 400, "the SHA-256 of the body is " + sha},
		{"a digest in capitals", strings.ToUpper(sha), bytes.NewReader(content), 400, "64 lower-case hex"},
		{"a short digest", sha[1:], bytes.NewReader(content), 400, "64 lower-case hex"},
		{"a path", "..%2f..%2fetc%2fpasswd", bytes.NewReader(content), 400, "64 lower-case hex"},
		{"a path as name", sha + "?name=..%2fx", bytes.NewReader(content), 400, "name:"},
		{"dots as name", sha + "?name=..", bytes.NewReader(content), 400, "name:"},
		{"a header in the name", sha + "?name=a%0d%0aX:1", bytes.NewReader(content), 400, "name:"},
		{"a lifetime in words", sha + "?ttl_s=1h", bytes.NewReader(content), 400, "ttl_s"},
		{"an unknown kind", sha + "?kind=film", bytes.NewReader(content), 400, "kind:"},
		{"no length", sha, struct{ io.Reader }{bytes.NewReader(content)}, 411, "Content-Length"},
		{"a large file", sum(make([]byte, 2000)), bytes.NewReader(make([]byte, 2000)), 413, "limit is 1000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t, Config{MaxBytes: 1000}, nil)
			res, body := do(t, "PUT", serve(t, s)+tt.path, tt.body, nil)
			if res.StatusCode != tt.status || !strings.Contains(body, tt.want) {
				t.Errorf("%d %s", res.StatusCode, body)
			}
			assertEmpty(t, s)
		})
	}
}

func assertEmpty(t *testing.T, s *Store) {
	t.Helper()
	if n, used := s.Usage(); n != 0 || used != 0 || s.reserved != 0 {
		t.Errorf("the store counts %d files, %d bytes, %d reserved", n, used, s.reserved)
	}
	err := filepath.WalkDir(s.cfg.Dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("left behind: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

type brokenReader struct{ io.Reader }

func (b brokenReader) Read(p []byte) (int, error) {
	if n, err := b.Reader.Read(p); err == nil {
		return n, nil
	}
	return 0, io.ErrUnexpectedEOF
}

func TestBrokenUploadsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{}, nil)
	sha := sum([]byte("content"))
	for name, body := range map[string]io.Reader{
		"a connection that breaks": brokenReader{strings.NewReader("cont")},
		"a body that is short":     strings.NewReader("cont"),
		"a body that is long":      strings.NewReader("content and more"),
	} {
		_, _, err := s.Store(Upload{SHA256: sha, Bytes: 7, Body: body})
		if status(err) != 400 {
			t.Errorf("%s: %v", name, err)
		}
		assertEmpty(t, s)
	}
}

func TestReadsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{}, nil)
	base := serve(t, s)
	for path, want := range map[string]int{
		sum([]byte("nothing")):          404,
		"..%2f..%2f..%2fetc%2fpasswd":   400,
		"%2e%2e":                        400,
		strings.Repeat("A", 64):         400,
		sum(nil) + ".json":              400,
		sum(nil)[:2] + "%2f" + sum(nil): 400,
	} {
		if res, body := do(t, "GET", base+path, nil, nil); res.StatusCode != want {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
}

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
	for deadline := time.Now().Add(20 * time.Second); ; {
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
	c.pass(promised)
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

func TestSameFileFromManySides(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{}, nil)
	content := strings.Repeat("x", 100_000)
	sha := sum([]byte(content))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, _, err := s.Store(Upload{SHA256: sha, Bytes: int64(len(content)), Body: strings.NewReader(content)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n, used := s.Usage(); n != 1 || used != int64(len(content)) || s.reserved != 0 {
		t.Errorf("%d files, %d bytes, %d reserved", n, used, s.reserved)
	}
}

func TestMediaTypesAndNames(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": defaultMediaType, "nonsense": defaultMediaType, "text/html; charset=UTF-8": "text/html; charset=UTF-8",
		"a/b\r\nX: y": defaultMediaType, strings.Repeat("a", 300) + "/b": defaultMediaType,
	} {
		if got := cleanMediaType(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	if got := defaultName(strings.Repeat("ab", 32), "audio/wav"); got != "artifact-abababababab.wav" {
		t.Errorf("got %q", got)
	}
}

// lateReader gives its bytes only when the gate opens.
type lateReader struct {
	io.Reader
	gate <-chan time.Time
}

func (l lateReader) Read(p []byte) (int, error) {
	<-l.gate
	return l.Reader.Read(p)
}

func TestLongUploadsOutliveTheServersTimeouts(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{}, nil)
	base := serve(t, s, func(srv *http.Server) { srv.ReadTimeout, srv.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond })
	content := "long in coming"
	gate := make(chan time.Time)
	time.AfterFunc(300*time.Millisecond, func() { close(gate) })
	req, err := http.NewRequestWithContext(t.Context(), "PUT", base+sum([]byte(content)), lateReader{strings.NewReader(content), gate})
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = int64(len(content))
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != 200 {
		t.Errorf("answered %d", res.StatusCode)
	}
}
