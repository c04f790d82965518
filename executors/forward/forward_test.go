package forward

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

func newTest(t *testing.T, change func(*Settings)) *Executor {
	t.Helper()
	s := Defaults()
	change(&s)
	e, err := New("1", s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestNotReadySaysWhy(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*Settings)
		want   string
	}{
		"no URL":        {func(*Settings) {}, "executors.forward.url is not set"},
		"missing token": {func(s *Settings) { s.URL, s.TokenFile = "https://a.test/", "/nowhere/token" }, "token_file"},
	} {
		d, err := newTest(t, tt.change).Describe(context.Background())
		if err != nil || d.Ready || d.Check() != nil || !strings.Contains(strings.Join(d.Reasons, ""), tt.want) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	_, err := newTest(t, func(*Settings) {}).Execute(context.Background(), executors.Task{Type: aiProcessing})
	if !executors.IsCode(err, executors.CodeEngineUnavailable) {
		t.Errorf("a task without URL: %v", err)
	}
}

func TestTokenIsSentAndNeverShown(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-token"
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+secret {
			t.Errorf("authorization = %q", r.Header.Get("Authorization"))
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(srv.Close)
	e := newTest(t, func(s *Settings) { s.URL, s.TokenFile = srv.URL, path })
	_, err := e.Execute(context.Background(), executors.Task{ID: "a", Type: aiProcessing, Payload: json.RawMessage(`{}`)})
	got := executors.AsError(err)
	if got == nil || got.Code != executors.CodePermissionDenied || got.Retryable || strings.Contains(got.Error(), secret) {
		t.Errorf("error = %+v", got)
	}
	if err := os.WriteFile(path, []byte("two\nlines"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = e.Execute(context.Background(), executors.Task{ID: "a", Type: aiProcessing, Payload: json.RawMessage(`{}`)})
	if err == nil || strings.Contains(err.Error(), "lines") {
		t.Errorf("error with a broken token = %v", err)
	}
}

func TestServiceThatIsDownMayBeTriedAgain(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	e := newTest(t, func(s *Settings) { s.URL = srv.URL })
	_, err := e.Execute(context.Background(), executors.Task{ID: "a", Type: aiProcessing, Payload: json.RawMessage(`{}`)})
	if got := executors.AsError(err); got == nil || got.Code != executors.CodeEngineError || !got.Retryable || !strings.Contains(got.Message, "refused") {
		t.Errorf("error = %+v", got)
	}
}

func TestStatusMapping(t *testing.T) {
	t.Parallel()
	e := newTest(t, func(s *Settings) { s.URL = "http://a.test/" })
	for status, want := range map[int]struct {
		code  executors.Code
		retry bool
	}{
		302: {executors.CodeEngineError, false}, 400: {executors.CodeInvalidInput, false}, 401: {executors.CodePermissionDenied, false},
		404: {executors.CodeNotFound, false}, 405: {executors.CodeEngineError, false}, 408: {executors.CodeEngineError, true},
		413: {executors.CodeTooLarge, false}, 422: {executors.CodeInvalidInput, false}, 429: {executors.CodeResourceExhausted, true},
		500: {executors.CodeEngineError, true}, 503: {executors.CodeEngineError, true},
	} {
		_, err := e.answer(&http.Response{StatusCode: status, Header: http.Header{}}, []byte("why\xff"))
		got := executors.AsError(err)
		if got == nil || got.Code != want.code || got.Retryable != want.retry || got.Detail != "why�" {
			t.Errorf("%d: %+v, want %s, retryable %v", status, got, want.code, want.retry)
		}
	}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-7": 0, "999999": time.Hour, "soon": 0, now.Add(time.Minute).Format(http.TimeFormat): time.Minute,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("Retry-After %q: %s, want %s", value, got, want)
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Settings)
		want   string
	}{
		{"defaults", func(*Settings) {}, ""},
		{"a private URL is the administrator's choice", func(s *Settings) { s.URL = "http://10.0.0.1:8080/x" }, ""},
		{"file", func(s *Settings) { s.URL = "file:///x" }, "url:"},
		{"password in the URL", func(s *Settings) { s.URL = "http://a:hunter2@b/" }, "token_file"},
		{"token in clear text", func(s *Settings) { s.URL, s.TokenFile = "http://10.0.0.1/", "/t" }, "clear text"},
		{"token to loopback", func(s *Settings) { s.URL, s.TokenFile = "http://127.0.0.1/", "/t" }, ""},
		{"relative token file", func(s *Settings) { s.TokenFile = "t" }, "token_file:"},
		{"no types", func(s *Settings) { s.Types = nil }, "types:"},
		{"bad type", func(s *Settings) { s.Types = []string{"A"} }, "types[0]"},
		{"type twice", func(s *Settings) { s.Types = []string{"a", "a"} }, "types[1]"},
		{"timeout over its maximum", func(s *Settings) { s.Timeout = 2 * time.Hour }, "timeout:"},
		{"too many", func(s *Settings) { s.Concurrency = 1001 }, "concurrency:"},
	} {
		s := Defaults()
		tt.change(&s)
		_, err := New("1", s)
		if (tt.want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
