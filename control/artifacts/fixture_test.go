package artifacts

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

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
