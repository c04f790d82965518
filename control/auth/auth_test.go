package auth

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

var (
	testSecret = []byte("0123456789abcdef0123456789abcdef-jwt")
	testKey    = []byte("0123456789abcdef0123456789abcdef-key")
)

func newAuth(t *testing.T) (*Authenticator, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	a, err := New(Config{JWTSecret: testSecret, InternalKey: testKey, Log: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	return a, logs
}

func sign(t *testing.T, method jwt.SigningMethod, key any, c jwt.MapClaims) string {
	t.Helper()
	s, err := jwt.NewWithClaims(method, c).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	good := func(change func(jwt.MapClaims)) jwt.MapClaims {
		c := jwt.MapClaims{"username": "ada", "role": "admin", "email": "ada@example.org",
			"iat": now.Unix(), "exp": now.Add(24 * time.Hour).Unix()}
		if change != nil {
			change(c)
		}
		return c
	}
	hs := func(change func(jwt.MapClaims)) string {
		return "Bearer " + sign(t, jwt.SigningMethodHS256, testSecret, good(change))
	}
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	stream := func(r *http.Request) { r.Header.Set("Accept", "text/event-stream") }
	plain := strings.TrimPrefix(hs(nil), "Bearer ")

	for _, tt := range []struct {
		name   string
		need   Role
		mutate []func(*http.Request)
		status int // 0: let in
		detail string
	}{
		{"no header is refused", RoleAdmin, nil, 401, detailRequired},
		{"a token of an existing client is accepted", RoleAdmin, []func(*http.Request){set("Authorization", hs(nil))}, 0, ""},
		{"float times are accepted", RoleAdmin, []func(*http.Request){set("Authorization", hs(func(c jwt.MapClaims) { c["exp"] = float64(now.Unix()) + 3600.5 }))}, 0, ""},
		{"the scheme's case does not matter", RoleAdmin, []func(*http.Request){set("Authorization", strings.Replace(hs(nil), "Bearer", "bEARER", 1))}, 0, ""},
		{"another scheme is no credential", RoleAdmin, []func(*http.Request){set("Authorization", "Basic YTpi")}, 401, detailRequired},
		{"an empty token is refused", RoleAdmin, []func(*http.Request){set("Authorization", "Bearer ")}, 401, detailRequired},
		{"role user may not change things", RoleAdmin, []func(*http.Request){set("Authorization", hs(func(c jwt.MapClaims) { c["role"] = "user" }))}, 403, detailForbidden},
		{"role user may read", RoleUser, []func(*http.Request){set("Authorization", hs(func(c jwt.MapClaims) { c["role"] = "user" }))}, 0, ""},
		{"an unknown role may not even read", RoleUser, []func(*http.Request){set("Authorization", hs(func(c jwt.MapClaims) { c["role"] = "Admin" }))}, 403, detailForbidden},
		{"no role", RoleUser, []func(*http.Request){set("Authorization", hs(func(c jwt.MapClaims) { delete(c, "role") }))}, 401, detailNoRole},
		{"no username", RoleUser, []func(*http.Request){set("Authorization", hs(func(c jwt.MapClaims) { delete(c, "username") }))}, 401, detailRequired},
		{"no exp", RoleUser, []func(*http.Request){set("Authorization", hs(func(c jwt.MapClaims) { delete(c, "exp") }))}, 401, detailRequired},
		{"a role that is no text", RoleUser, []func(*http.Request){set("Authorization", hs(func(c jwt.MapClaims) { c["role"] = 7 }))}, 401, detailRequired},
		{"expired", RoleUser, []func(*http.Request){set("Authorization", hs(func(c jwt.MapClaims) { c["exp"] = now.Add(-time.Minute).Unix() }))}, 401, detailRequired},
		{"expired within the leeway", RoleUser, []func(*http.Request){set("Authorization", hs(func(c jwt.MapClaims) { c["exp"] = now.Add(-5 * time.Second).Unix() }))}, 0, ""},
		{"another secret", RoleUser, []func(*http.Request){set("Authorization", "Bearer "+sign(t, jwt.SigningMethodHS256, []byte("another secret of at least 32 bytes!"), good(nil)))}, 401, detailRequired},
		{"alg none", RoleUser, []func(*http.Request){set("Authorization", "Bearer "+sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good(nil)))}, 401, detailRequired},
		{"alg RS256", RoleUser, []func(*http.Request){set("Authorization", "Bearer "+sign(t, jwt.SigningMethodRS256, rsaKey, good(nil)))}, 401, detailRequired},
		{"alg HS512 with the right secret", RoleUser, []func(*http.Request){set("Authorization", "Bearer "+sign(t, jwt.SigningMethodHS512, testSecret, good(nil)))}, 401, detailRequired},
		{"internal key", RoleAdmin, []func(*http.Request){set("X-Internal-API-Key", string(testKey))}, 0, ""},
		{"wrong internal key", RoleAdmin, []func(*http.Request){set("X-Internal-API-Key", string(testKey[1:]))}, 401, detailRequired},
		{"a role header gives nothing", RoleAdmin, []func(*http.Request){set("X-User-Role", "admin")}, 401, detailRequired},
		{"a token in the query of a plain request is not read", RoleUser, []func(*http.Request){func(r *http.Request) { r.URL.RawQuery = "token=" + plain }}, 401, detailRequired},
		{"a token in the query of an event stream", RoleUser, []func(*http.Request){stream, func(r *http.Request) { r.URL.RawQuery = "token=" + plain }}, 0, ""},
		{"a token in the query of a WebSocket", RoleUser, []func(*http.Request){set("Upgrade", "WebSocket"), func(r *http.Request) { r.URL.RawQuery = "token=" + plain }}, 0, ""},
		{"a token in the subprotocols of a WebSocket", RoleUser, []func(*http.Request){set("Upgrade", "websocket"), set("Sec-WebSocket-Protocol", "bearer, "+plain)}, 0, ""},
		{"a subprotocol without a token", RoleUser, []func(*http.Request){set("Upgrade", "websocket"), set("Sec-WebSocket-Protocol", "bearer")}, 401, detailRequired},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, logs := newAuth(t)
			r := httptest.NewRequest(http.MethodGet, "/api/tasks", nil)
			for _, m := range tt.mutate {
				m(r)
			}
			id, err := a.Authenticate(r, tt.need)
			var refusal *Error
			switch {
			case tt.status == 0:
				if err != nil || id.Username == "" {
					t.Fatalf("refused: %v %+v", err, id)
				}
			case !errors.As(err, &refusal):
				t.Fatalf("let in as %+v, error %v", id, err)
			case refusal.Status != tt.status || refusal.Detail != tt.detail:
				t.Fatalf("got %d %q, want %d %q", refusal.Status, refusal.Detail, tt.status, tt.detail)
			}
			for _, entry := range logs.All() {
				text := fmt.Sprint(entry.Message, entry.ContextMap())
				if strings.Contains(text, plain) || strings.Contains(text, string(testKey[1:])) {
					t.Errorf("the log shows a secret: %s", text)
				}
			}
		})
	}
}

func TestRefusalHeaders(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	(&Error{Status: 401}).WriteHeader(h)
	(&Error{Status: 429, RetryAfter: 30 * time.Second}).WriteHeader(h)
	if h.Get("WWW-Authenticate") != "Bearer" || h.Get("Retry-After") != "31" {
		t.Errorf("headers: %v", h)
	}
}

func TestWrongCredentialsAreLimitedPerAddress(t *testing.T) {
	t.Parallel()
	a, logs := newAuth(t)
	status := func(addr, key string) int {
		r := httptest.NewRequest(http.MethodGet, "/api/tasks", nil)
		r.RemoteAddr = addr
		if key != "" {
			r.Header.Set(HeaderInternalKey, key)
		}
		_, err := a.Authenticate(r, RoleUser)
		var refusal *Error
		if errors.As(err, &refusal) {
			return refusal.Status
		}
		return http.StatusOK
	}
	for i := range 10 {
		if got := status("192.0.2.1:1000", "wrong"); got != 401 {
			t.Fatalf("failure %d answered %d, want 401", i+1, got)
		}
	}
	for range 3 {
		if got := status("192.0.2.1:1001", "wrong"); got != 429 {
			t.Fatalf("the eleventh failure answered %d, want 429", got)
		}
	}
	if got := status("192.0.2.1:1002", string(testKey)); got != 200 {
		t.Errorf("the right key behind a limited address answered %d", got)
	}
	if got := status("192.0.2.1:1003", ""); got != 401 {
		t.Errorf("no credential answered %d, want 401", got)
	}
	if got := status("192.0.2.2:1000", "wrong"); got != 401 {
		t.Errorf("another address answered %d, want 401", got)
	}
	if n := logs.FilterField(zap.String("reason", "too_many")).Len(); n != 1 {
		t.Errorf("%d lines for the limited address, want 1", n)
	}
}

func TestFailuresStayBounded(t *testing.T) {
	t.Parallel()
	f, now := newFailures(), time.Now()
	for i := range maxAddresses + 100 {
		f.add(fmt.Sprint(i), now.Add(time.Duration(i)))
	}
	if len(f.by) > maxAddresses {
		t.Errorf("%d addresses are kept", len(f.by))
	}
}

func TestRemoteIP(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"192.0.2.7:80":              "192.0.2.7",
		"[::ffff:192.0.2.7]:80":     "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::/64",
		"[::1]:80":                  "::1",
		"@":                         "@",
	} {
		if got := remoteIP(&http.Request{RemoteAddr: addr}); got != want {
			t.Errorf("%s: got %s, want %s", addr, got, want)
		}
	}
}

func TestMint(t *testing.T) {
	t.Parallel()
	tokens, err := NewTokens(testSecret)
	if err != nil {
		t.Fatal(err)
	}
	token, err := tokens.Mint(RoleUser, time.Hour, "bob")
	if err != nil {
		t.Fatal(err)
	}
	id, err := tokens.Verify(token)
	if err != nil || id.Username != "bob" || id.Role != RoleUser || time.Until(id.Expires) > time.Hour {
		t.Errorf("got %+v, %v", id, err)
	}
	if _, err := tokens.Mint("root", time.Hour, ""); err == nil {
		t.Error("an unknown role was accepted")
	}
	for _, ttl := range []time.Duration{0, -time.Hour, MaxTTL + 1} {
		if _, err := tokens.Mint(RoleAdmin, ttl, ""); err == nil {
			t.Errorf("a lifetime of %v was accepted", ttl)
		}
	}
	if _, err := NewTokens([]byte("short")); err == nil {
		t.Error("a short secret was accepted")
	}
	if _, err := New(Config{JWTSecret: testSecret, InternalKey: []byte("short")}); err == nil {
		t.Error("a short internal key was accepted")
	}
}
