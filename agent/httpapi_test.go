package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// testAPI serves an API whose answers are fixed, and returns its TCP address
// and socket.
func testAPI(t *testing.T) (a *api, address, socket string) {
	t.Helper()
	dir := shortDir(t)
	cfg := Defaults()
	cfg.StateDir, cfg.HTTP.Listen = dir, "127.0.0.1:0"
	l, err := listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	a = &api{
		log:       zap.NewNop(),
		liveness:  func() error { return nil },
		readiness: func() error { return errors.New("redis.url is not set") },
		status:    func() Status { return Status{WorkerID: "w", Reason: "waiting"} },
		drain:     func(context.Context) (DrainReply, error) { return DrainReply{Draining: true, Running: 2}, nil },
		resume:    func(context.Context) (DrainReply, error) { return DrainReply{}, errors.New("Redis is away") },
		metrics:   prometheus.NewRegistry(),
		artifacts: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "bytes") }),
		hostname:  "npu-vm.lan",
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return a, l.address(), SocketPath(dir)
}

// shortDir is a state folder whose path leaves room for a socket's name, which
// the names of tests may not.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

type request struct {
	method, path, host string
	header             map[string]string
}

func do(t *testing.T, network, address string, r request) (int, string) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(context.Background(), r.method, "http://localhost"+r.path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if r.host != "" {
		req.Host = r.host
	}
	for k, v := range r.header {
		req.Header.Set(k, v)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestLocalAPIAnswers(t *testing.T) {
	t.Parallel()
	_, address, socket := testAPI(t)
	for _, tt := range []struct {
		name   string
		r      request
		status int
		body   string // part of it
	}{
		{"alive", request{method: "GET", path: "/healthz"}, 200, `"ok"`},
		{"not ready, with the reason", request{method: "GET", path: "/readyz"}, 503, `"detail": "redis.url is not set"`},
		{"status", request{method: "GET", path: "/status"}, 200, `"worker_id": "w"`},
		{"metrics", request{method: "GET", path: "/metrics"}, 200, ""},
		{"artifacts", request{method: "GET", path: "/api/artifacts/00"}, 200, "bytes"},
		{"drain", request{method: "POST", path: "/drain"}, 200, `"running": 2`},
		{"an operation that fails", request{method: "POST", path: "/resume"}, 503, "Redis is away"},
		{"an unknown address", request{method: "GET", path: "/x"}, 404, "no such address: GET /x"},
		{"an unknown method", request{method: "GET", path: "/drain"}, 404, "no such address: GET /drain"},
		{"by the address", request{method: "GET", path: "/healthz", host: "127.0.0.1:8080"}, 200, ""},
		{"by the IPv6 address", request{method: "GET", path: "/healthz", host: "[::1]:8080"}, 200, ""},
		{"by the machine's name", request{method: "GET", path: "/healthz", host: "NPU-vm.lan"}, 200, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for network, to := range map[string]string{"tcp": address, "unix": socket} {
				status, body := do(t, network, to, tt.r)
				if status != tt.status || !strings.Contains(body, tt.body) {
					t.Errorf("%s: %d %s; want %d %s", network, status, body, tt.status, tt.body)
				}
				if strings.HasPrefix(body, "{") && !json.Valid([]byte(body)) {
					t.Errorf("%s: not JSON: %s", network, body)
				}
			}
		})
	}
}

func TestLocalAPIRefusesWebPages(t *testing.T) {
	t.Parallel()
	_, address, _ := testAPI(t)
	for name, r := range map[string]request{
		"a rebound name":                 {method: "GET", path: "/status", host: "evil.example"},
		"a rebound name with our port":   {method: "GET", path: "/status", host: "evil.example:8080"},
		"a name that contains ours":      {method: "GET", path: "/status", host: "localhost.evil.example"},
		"a POST from another origin":     {method: "POST", path: "/drain", header: map[string]string{"Origin": "https://evil.example"}},
		"a POST marked as cross-site":    {method: "POST", path: "/drain", header: map[string]string{"Sec-Fetch-Site": "cross-site"}},
		"a POST to the name of the page": {method: "POST", path: "/drain", host: "evil.example"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if status, body := do(t, "tcp", address, r); status != 403 && status != 421 || !strings.Contains(body, "detail") {
				t.Errorf("got %d %s", status, body)
			}
		})
	}
}

func TestOnlyThisMachineMayDrain(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{"127.0.0.1:5": true, "[::1]:5": true, "127.8.8.8:5": true, "192.0.2.1:5": false, "[2001:db8::1]:5": false, "": false} {
		if got := fromHere(addr); got != want {
			t.Errorf("%q: %v", addr, got)
		}
	}
}

func TestTakenPortIsAClearError(t *testing.T) {
	t.Parallel()
	_, address, _ := testAPI(t)
	cfg := Defaults()
	cfg.StateDir, cfg.HTTP.Listen = shortDir(t), address
	_, err := listen(cfg)
	if err == nil || !strings.Contains(err.Error(), "another program uses the port") || !strings.Contains(err.Error(), address) {
		t.Errorf("got %v", err)
	}
}

func TestSocketIsForThisUserAlone(t *testing.T) {
	t.Parallel()
	_, _, socket := testAPI(t)
	info, err := os.Stat(socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
