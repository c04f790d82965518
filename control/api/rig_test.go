package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/autobot-fleet/autobot/control/auth"
	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const testKey = "0123456789abcdef0123456789abcdef-key"

// rig is an API on a real listener with a fake queue behind it.
type rig struct {
	t     *testing.T
	queue *fakeQueue
	auth  *auth.Authenticator
	api   *API
	url   string
	logs  *observer.ObservedLogs
	user  string // token of role user
}

func newRig(t *testing.T, change ...func(*Deps)) *rig {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	log := zap.New(core)
	a, err := auth.New(auth.Config{JWTSecret: []byte(testKey + "-jwt"), InternalKey: []byte(testKey), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	user, err := a.Mint(auth.RoleUser, time.Hour, "bob")
	if err != nil {
		t.Fatal(err)
	}
	q := newFakeQueue()
	d := Deps{Queue: q, Auth: a, Log: log, Version: "1.2.3"}
	for _, c := range change {
		c(&d)
	}
	api := New(d)
	srv := httptest.NewUnstartedServer(api)
	srv.Config = api.Server()
	srv.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if err := api.Drain(ctx); err != nil {
			t.Error("streams do not end:", err)
		}
		srv.Close()
	})
	return &rig{t: t, queue: q, auth: a, api: api, url: srv.URL, logs: logs, user: user}
}

// do sends a request as admin unless the header says otherwise.
func (r *rig) do(method, path, body string, header ...string) (*http.Response, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if len(header) == 0 {
		req.Header.Set("X-Internal-API-Key", testKey)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	tr := &http.Transport{DisableKeepAlives: true}
	res, err := tr.RoundTrip(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res, string(b)
}

// want sends a request and compares status and body (or, when body starts
// with "~", looks for it in the answer).
func (r *rig) want(method, path, in string, status int, body string) {
	r.t.Helper()
	res, got := r.do(method, path, in)
	part, contains := strings.CutPrefix(body, "~")
	if res.StatusCode != status || contains && !strings.Contains(got, part) || !contains && got != body {
		r.t.Errorf("%s %s %.200s\n got %d %.600s\nwant %d %s", method, path, in, res.StatusCode, got, status, body)
	}
	if got != "" && !json.Valid([]byte(got)) {
		r.t.Errorf("%s %s: not JSON: %s", method, path, got)
	}
}

func mint(t *testing.T, role string) string {
	t.Helper()
	return signClaims(t, map[string]any{"username": "eve", "role": role, "exp": time.Now().Add(time.Hour).Unix()})
}
