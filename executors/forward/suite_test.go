package forward_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/executorstest"
	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// service answers as a service at the far end might, by the payload's "want".
func service(w http.ResponseWriter, r *http.Request) {
	var body struct {
		TaskID  string `json:"task_id"`
		Type    string `json:"type"`
		Payload struct {
			Want string `json:"want"`
		} `json:"payload"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch body.Payload.Want {
	case "hang":
		<-r.Context().Done()
	case "big":
		_, _ = io.WriteString(w, `{"x": "`+strings.Repeat("x", executors.MaxOutput)+`"}`)
	case "list":
		_, _ = io.WriteString(w, `[1]`)
	case "nothing":
		w.WriteHeader(http.StatusNoContent)
	case "redirect":
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	case "busy":
		w.Header().Set("Retry-After", "7")
		http.Error(w, "slow down", http.StatusTooManyRequests)
	case "refuse":
		http.Error(w, "no such agent", http.StatusUnprocessableEntity)
	case "break":
		http.Error(w, "oops", http.StatusBadGateway)
	case "drop":
		panic(http.ErrAbortHandler)
	default:
		_ = json.NewEncoder(w).Encode(map[string]string{
			"id": body.TaskID, "type": body.Type, "auth": r.Header.Get("Authorization"), "path": r.URL.Path,
		})
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(service))
	t.Cleanup(srv.Close)
	want := func(s string) string { return `{"want": "` + s + `"}` }
	executorstest.Run(t, executorstest.Binary{
		Path: executorstest.Build(t, "github.com/autobot-fleet/autobot/executors/forward/cmd/autobot-executor-forward"),
		Settings: map[string]any{
			"url": srv.URL + "/run", "types": []string{"ai_processing", "classify"}, "concurrency": 3, "timeout": "50s",
		},
		AnyPayload: true,
		Tasks: []executorstest.Case{
			{Name: "the answer is the output", Type: "ai_processing", Payload: `{"op": "agent", "q": 1}`, Check: func(t *testing.T, r executorstest.Report) {
				if got := string(r.Result.Output); !strings.Contains(got, `"type":"ai_processing"`) || !strings.Contains(got, `"path":"/run"`) {
					t.Errorf("output = %s", got)
				}
			}},
			{Name: "other types keep their own op", Type: "classify", Payload: `{"op": "whatever"}`},
			{Name: "no content is an empty output", Type: "classify", Payload: want("nothing")},
			{Name: "a list is no output", Type: "classify", Payload: want("list"), Code: executors.CodeEngineError},
			{Name: "an answer over the limit", Type: "classify", Payload: want("big"), Code: executors.CodeTooLarge},
			{Name: "422", Type: "classify", Payload: want("refuse"), Code: executors.CodeInvalidInput, Check: wantRetry(false)},
			{Name: "502", Type: "classify", Payload: want("break"), Code: executors.CodeEngineError, Check: wantRetry(true)},
			{Name: "redirects are not followed", Type: "classify", Payload: want("redirect"), Code: executors.CodeEngineError, Check: wantRetry(false)},
			{Name: "a dropped connection", Type: "classify", Payload: want("drop"), Code: executors.CodeEngineError, Check: wantRetry(true)},
			{Name: "429 with its delay", Type: "classify", Payload: want("busy"), Code: executors.CodeResourceExhausted, Check: func(t *testing.T, r executorstest.Report) {
				wantRetry(true)(t, r)
				if r.Err.Delay.Seconds() != 7 {
					t.Errorf("delay = %s, want 7s", r.Err.Delay)
				}
			}},
		},
		Long: executorstest.Case{Type: "ai_processing", Payload: want("hang")},
	})
}

func wantRetry(want bool) func(*testing.T, executorstest.Report) {
	return func(t *testing.T, r executorstest.Report) {
		t.Helper()
		if r.Err.Retryable != want {
			t.Errorf("retryable = %v, want %v: %v", r.Err.Retryable, want, r.Err)
		}
	}
}
