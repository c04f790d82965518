package general

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/playwright/egress"
)

// A table of names, in place of a name server.
type table map[string][]string

func (t table) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	var addrs []netip.Addr
	for _, a := range t[host] {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	if addrs == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return addrs, nil
}

// nowhere notes what would be dialled and reaches nothing.
type nowhere struct{ dialled []string }

var errNowhere = errors.New("nothing is reached")

func (n *nowhere) DialContext(_ context.Context, _, address string) (net.Conn, error) {
	n.dialled = append(n.dialled, address)
	return nil, errNowhere
}

func newTestGuard(t *testing.T, names table, d egress.Dialer, allow ...string) *guard {
	t.Helper()
	policy, err := egress.ParsePolicy(allow, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &guard{egress: egress.New(policy, egress.Options{Resolver: names, Dialer: d})}
}

// The rules themselves are tested in package egress. Here: http_check obeys
// them, and its errors are of use.
func TestGuardRefusesWhatIsNotPublic(t *testing.T) {
	t.Parallel()
	var dialer nowhere
	g := newTestGuard(t, table{"private.test": {"10.1.2.3"}, "mapped.test": {"::ffff:127.0.0.1"}}, &dialer)
	for _, target := range []string{
		"127.0.0.1:80", "10.0.0.1:443", "169.254.1.1:80", "[::1]:80", "[::ffff:127.0.0.1]:80", "[fe80::1%25lo]:80",
		"private.test:80", "mapped.test:80", "PRIVATE.test.:80", "localhost:80",
		"127.1:80", "0x7f000001:80", "metadata.google.internal:80", "8.8.8.8:22",
	} {
		_, err := g.dial(context.Background(), "tcp", target)
		if !executors.IsCode(err, executors.CodeEgressDenied) || executors.AsError(err).Retryable {
			t.Errorf("%s: %v, want EGRESS_DENIED, final", target, err)
		}
	}
	if len(dialer.dialled) != 0 {
		t.Errorf("dialled %v", dialer.dialled)
	}
	_, err := g.dial(context.Background(), "tcp", "private.test:80")
	if hint := executors.AsError(err).Hint; !strings.Contains(hint, `executors.general.allow: ["private.test"]`) {
		t.Errorf("hint %q, want the key and the entry", hint)
	}
	_, err = g.dial(context.Background(), "tcp", "unknown.test:80")
	var dns *net.DNSError
	if !errors.As(err, &dns) {
		t.Errorf("unknown name: %v, want a DNS error: it is not a refusal", err)
	}
}

func TestGuardDialsWhatIsAllowedOrPublic(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ allow, target, want string }{
		{"", "8.8.8.8:443", "8.8.8.8:443"},
		{"Inner.TEST.", "inner.test:80", "10.0.0.5:80"},
		{"inner.test:81", "inner.test:81", "10.0.0.5:81"},
		{"10.0.0.0/24", "inner.test:80", "10.0.0.5:80"},
		{"[::1]:90", "[::1]:90", "[::1]:90"},
		{"", "mixed.test:80", "8.8.8.8:80"},
	} {
		var dialer nowhere
		var allow []string
		if tt.allow != "" {
			allow = []string{tt.allow}
		}
		g := newTestGuard(t, table{"inner.test": {"10.0.0.5"}, "mixed.test": {"127.0.0.1", "8.8.8.8"}}, &dialer, allow...)
		if _, err := g.dial(context.Background(), "tcp", tt.target); !errors.Is(err, errNowhere) || strings.Join(dialer.dialled, " ") != tt.want {
			t.Errorf("allow %q, %s: dialled %v, %v; want %s", tt.allow, tt.target, dialer.dialled, err, tt.want)
		}
	}
	for _, bad := range []string{"", "a b", "10.0.0.0/99", "host:0", "host:http", "http://a/"} {
		if _, err := newGuard([]string{bad}); err == nil {
			t.Errorf("allow %q is accepted", bad)
		}
	}
}

func newTest(t *testing.T, s Settings) *Executor {
	t.Helper()
	e, err := New("1", s)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func do(t *testing.T, e *Executor, typ string, payload map[string]any) (executors.Result, error) {
	t.Helper()
	raw, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return e.Execute(ctx, executors.Task{ID: "t", Type: typ, Payload: raw})
}

func TestHTTPCheck(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	secret := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	t.Cleanup(secret.Close)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, secret.URL, http.StatusFound)
		case "/file":
			http.Redirect(w, r, "file:///etc/hostname", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/ok":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/503":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/404":
			w.WriteHeader(http.StatusNotFound)
		case "/drop":
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	// Only this port of the loopback address is allowed.
	e := newTest(t, Settings{Allow: []string{u.Host}})
	for _, tt := range []struct {
		name    string
		payload map[string]any
		code    executors.Code
		retry   bool
	}{
		{"ok", map[string]any{"url": srv.URL}, "", false},
		{"a redirect within what is allowed", map[string]any{"url": srv.URL + "/ok"}, "", false},
		{"head", map[string]any{"url": srv.URL, "method": "head"}, "", false},
		{"another status that is expected", map[string]any{"url": srv.URL + "/404", "expect_status": 404}, "", false},
		{"404", map[string]any{"url": srv.URL + "/404"}, executors.CodeNavigationFailed, false},
		{"503", map[string]any{"url": srv.URL + "/503"}, executors.CodeNavigationFailed, true},
		{"dropped", map[string]any{"url": srv.URL + "/drop"}, executors.CodeNavigationFailed, true},
		{"a redirect to what is not allowed", map[string]any{"url": srv.URL + "/redirect"}, executors.CodeEgressDenied, false},
		{"a redirect to a file", map[string]any{"url": srv.URL + "/file"}, executors.CodeEgressDenied, false},
		{"a loop", map[string]any{"url": srv.URL + "/loop"}, executors.CodeNavigationFailed, false},
		{"another port", map[string]any{"url": secret.URL}, executors.CodeEgressDenied, false},
		{"file", map[string]any{"url": "file:///etc/hostname"}, executors.CodeInvalidInput, false},
		{"user info", map[string]any{"url": "http://localhost@evil.test/"}, executors.CodeInvalidInput, false},
		{"no url", map[string]any{}, executors.CodeInvalidInput, false},
		{"post", map[string]any{"url": srv.URL, "method": "POST"}, executors.CodeInvalidInput, false},
		{"no status", map[string]any{"url": srv.URL, "expect_status": 7}, executors.CodeInvalidInput, false},
	} {
		tt.payload["op"] = "http_check"
		r, err := do(t, e, "general", tt.payload)
		got := executors.AsError(err)
		switch {
		case tt.code == "" && err != nil, tt.code != "" && (got == nil || got.Code != tt.code || got.Retryable != tt.retry):
			t.Errorf("%s: %v (retryable %v), want %q (retryable %v)", tt.name, err, got != nil && got.Retryable, tt.code, tt.retry)
		case tt.code == "" && !strings.Contains(string(r.Output), `"status":`):
			t.Errorf("%s: output %s", tt.name, r.Output)
		case strings.HasPrefix(tt.name, "503") && !strings.Contains(string(got.Output), `"status":503`):
			t.Errorf("%s: output %s", tt.name, got.Output)
		}
	}
	if hits.Load() != 0 {
		t.Errorf("the server that is not allowed had %d hits", hits.Load())
	}
}

func TestHashFilesStaysBelowItsRoots(t *testing.T) {
	t.Parallel()
	root, outside := t.TempDir(), t.TempDir()
	file := func(path string) {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file(filepath.Join(root, "in"))
	file(filepath.Join(outside, "secret"))
	for link, target := range map[string]string{"inner": "in", "escape": filepath.Join(outside, "secret"), "up": "../" + filepath.Base(outside) + "/secret"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := newTest(t, Settings{InputRoots: []string{"/nowhere", root}})
	for _, tt := range []struct {
		path string
		code executors.Code
	}{
		{root + "/in", ""},
		{root + "/./x/../in", ""},
		{root + "/inner", ""},
		{root + "/escape", executors.CodePermissionDenied},
		{root + "/up", executors.CodePermissionDenied},
		{root + "/../" + filepath.Base(outside) + "/secret", executors.CodePermissionDenied},
		{outside + "/secret", executors.CodePermissionDenied},
		{root + "x/in", executors.CodePermissionDenied},
		{root + "/missing", executors.CodeNotFound},
		{"/nowhere/a", executors.CodeNotFound},
		{root, executors.CodeInvalidInput},
		{root + "/fifo", executors.CodeInvalidInput},
		{"in", executors.CodeInvalidInput},
		{root + "/in\x00", executors.CodeInvalidInput},
	} {
		r, err := do(t, e, "analysis", map[string]any{"op": "hash_files", "paths": []string{tt.path}})
		if tt.code == "" && err != nil || tt.code != "" && !executors.IsCode(err, tt.code) {
			t.Errorf("%s: %v, want %q", tt.path, err, tt.code)
		}
		if tt.code == "" && !strings.Contains(string(r.Output), "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881") {
			t.Errorf("%s: output %s", tt.path, r.Output)
		}
	}
	if _, err := do(t, e, "analysis", map[string]any{"op": "hash_files", "paths": []string{}}); !executors.IsCode(err, executors.CodeInvalidInput) {
		t.Errorf("no paths: %v", err)
	}
}

func TestPayloadsAreChecked(t *testing.T) {
	t.Parallel()
	e := newTest(t, Defaults())
	for _, tt := range []struct {
		typ     string
		payload map[string]any
		want    string
	}{
		{"general", map[string]any{"op": "sleep", "ms": -1}, "ms: must be 0 to 86400000, got -1"},
		{"general", map[string]any{"op": "sleep", "ms": 86_400_001}, "ms: must be"},
		{"general", map[string]any{"op": "sleep", "msec": 1}, "msec: is an unknown field, did you mean ms?"},
		{"general", map[string]any{"op": "slep"}, "supported: echo, sleep, http_check"},
		{"analysis", map[string]any{}, "text: is required"},
		{"other", map[string]any{}, "not served"},
	} {
		if _, err := do(t, e, tt.typ, tt.payload); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %v: %v, want %q", tt.typ, tt.payload, err, tt.want)
		}
	}
	r, err := do(t, e, "general", map[string]any{"value": nil})
	if err != nil || string(r.Output) != `{"value":null}` || r.Op != "echo" {
		t.Errorf("echo of null: %s, %v", r.Output, err)
	}
	if err := (Settings{InputRoots: []string{"data"}, Allow: []string{"a b"}}).Validate(); err == nil ||
		!strings.Contains(err.Error(), "input_roots[0]") || !strings.Contains(err.Error(), "allow[0]") {
		t.Errorf("settings: %v, want both mistakes", err)
	}
}
