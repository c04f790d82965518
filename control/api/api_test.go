package api

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/redisconn"
	"github.com/autobot-fleet/autobot/queue"
)

func TestRefusalsAreByteIdentical(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const required = `{"detail":"Authentication required: Authentication required"}`
	noRole := "Bearer " + mint(t, "")
	for _, tt := range []struct {
		name, method, path string
		header             []string
		status             int
		body, challenge    string
	}{
		{"nothing", "GET", "/api/tasks", []string{"X", ""}, 401, required, "Bearer"},
		{"wrong key", "POST", "/api/tasks", []string{"X-Internal-API-Key", "wrong"}, 401, required, "Bearer"},
		{"wrong token", "GET", "/api/workers", []string{"Authorization", "Bearer x.y.z"}, 401, required, "Bearer"},
		{"the key as a token", "GET", "/api/workers", []string{"Authorization", "Bearer " + testKey}, 401,
			`{"detail":"Authentication required: this bearer token is no JWT; the internal key belongs into the header X-Internal-API-Key"}`, "Bearer"},
		{"user may not submit", "POST", "/api/tasks", []string{"Authorization", "Bearer " + r.user}, 403,
			`{"detail":"Insufficient permissions: Admin permission required for this operation"}`, ""},
		{"user may read", "GET", "/api/tasks", []string{"Authorization", "bearer " + r.user}, 200, `{"tasks":[]}`, ""},
		{"no role", "GET", "/api/tasks", []string{"Authorization", noRole}, 401,
			`{"detail":"Authentication required: User role not assigned - access denied"}`, "Bearer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, body := r.do(tt.method, tt.path, "", tt.header...)
			if res.StatusCode != tt.status || body != tt.body || res.Header.Get("WWW-Authenticate") != tt.challenge {
				t.Errorf("%d %s %v", res.StatusCode, body, res.Header)
			}
			if res.Header.Get("Content-Type") != "application/json" {
				t.Errorf("Content-Type %q", res.Header.Get("Content-Type"))
			}
		})
	}
	for range 12 {
		if res, body := r.do("GET", "/api/tasks", "", "X-Internal-API-Key", "wrong"); res.StatusCode == 429 {
			if body != `{"detail":"Too many auth failures"}` || res.Header.Get("Retry-After") == "" {
				t.Errorf("%s %v", body, res.Header)
			}
			return
		}
	}
	t.Error("wrong keys are never limited")
}

func TestEveryRouteNeedsCredentials(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, rt := range r.api.table() {
		method, path, _ := strings.Cut(rt.pattern, " ")
		path = strings.NewReplacer("{id}", "x", "{name}", "x", "{sha256}", strings.Repeat("0", 64)).Replace(path)
		res, body := r.do(method, path, "", "X", "")
		if (rt.who == open) != (res.StatusCode != 401) {
			t.Errorf("%s without credentials: %d %s", rt.pattern, res.StatusCode, body)
		}
		if rt.who == admin {
			if res, body := r.do(method, path, "", "Authorization", "Bearer "+r.user); res.StatusCode != 403 {
				t.Errorf("%s as user: %d %s", rt.pattern, res.StatusCode, body)
			}
		}
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want("GET", "/nothing", "", 404, `{"detail":"Not Found"}`)
	r.want("GET", "/api", "", 404, `{"detail":"Not Found"}`)
	r.want("PATCH", "/api/tasks/x", "", 405, `{"detail":"Method Not Allowed"}`)
	if res, _ := r.do("PUT", "/api/tasks", ""); res.Header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("Allow: %q", res.Header.Get("Allow"))
	}
	r.want("GET", "/api/tasks/", "", 200, `{"tasks":[]}`)
	r.want("POST", "/api/tasks/", `{"type":"general","id":"slash"}`, 200, `~"slash"`)
	if res, body := r.do("HEAD", "/api/tasks", ""); res.StatusCode != 200 || body != "" {
		t.Errorf("HEAD: %d %s", res.StatusCode, body)
	}
}

func TestHealthAndMetrics(t *testing.T) {
	t.Parallel()
	ready := true
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "test_total", Help: "A test."})
	reg.MustRegister(c)
	r := newRig(t, func(d *Deps) {
		d.Metrics = reg
		d.Ready = func() (bool, string) { return ready, "Redis is away" }
	})
	r.want("GET", "/healthz", "", 200, `{"status":"ok","version":"1.2.3"}`)
	r.want("GET", "/readyz", "", 200, `{"status":"ready","version":"1.2.3"}`)
	ready = false
	r.want("GET", "/readyz", "", 503, `{"status":"not_ready","version":"1.2.3","detail":"Redis is away"}`)
	for _, path := range []string{"/metrics", "/api/metrics/prometheus"} {
		res, body := r.do("GET", path, "", "X", "")
		if res.StatusCode != 200 || !strings.Contains(body, "# HELP test_total A test.\n# TYPE test_total counter\ntest_total 0") ||
			!strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") {
			t.Errorf("%s: %d %s %v", path, res.StatusCode, body, res.Header)
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		err    error
		status int
		want   string
	}{
		{"the breaker is open", fmt.Errorf("submit: %w", redisconn.ErrCircuitOpen), 503, "try again"},
		{"the connection breaks", io.ErrUnexpectedEOF, 503, "try again"},
		{"an unexpected error", errors.New("secret detail"), 500, "internal error: the log of the control plane has more under request "},
		{"an invalid id", &queue.InvalidError{Field: "id", Rule: "is bad"}, 400, "id: is bad"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.queue.fail(tt.err)
			res, body := r.do("POST", "/api/tasks", `{"type":"a"}`)
			if res.StatusCode != tt.status || !strings.Contains(body, tt.want) || strings.Contains(body, "secret") {
				t.Errorf("%d %s", res.StatusCode, body)
			}
			if (tt.status == 503) != (res.Header.Get("Retry-After") != "") {
				t.Errorf("Retry-After %q", res.Header.Get("Retry-After"))
			}
			id := res.Header.Get("X-Request-ID")
			logged := r.logs.FilterLevelExact(zap.ErrorLevel).FilterField(zap.String("request", id)).Len()
			if (tt.status == 500) != (logged == 1) || tt.status == 500 && !strings.Contains(body, id) {
				t.Errorf("%d error lines with the request's id, body %s", logged, body)
			}
		})
	}
	t.Run("a panic", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.queue.panics = true
		res, body := r.do("POST", "/api/tasks", `{"type":"a"}`, "X-Internal-API-Key", testKey, "X-Request-ID", "mine-1")
		if res.StatusCode != 500 || body != `{"detail":"internal error: the log of the control plane has more under request mine-1"}` {
			t.Errorf("%d %s", res.StatusCode, body)
		}
		if r.logs.FilterMessage("a handler panicked").Len() != 1 {
			t.Error("the panic is not in the log")
		}
	})
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, path := range []string{"/api/tasks", "/nothing", "/healthz"} {
		res, _ := r.do("GET", path, "", "X-Request-ID", "bad id")
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cache-Control": "no-store"} {
			if got := res.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		if id := res.Header.Get("X-Request-ID"); !requestIDPattern.MatchString(id) {
			t.Errorf("request id %q", id)
		}
	}
}

func TestNewNeedsAQueueAndAuthentication(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("New accepted nothing")
		}
	}()
	New(Deps{})
}
