package main

import (
	"bytes"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/internal/cli"
)

// A control plane that has gone is told once, and not waited for for ever.
func TestWatchGivesUp(t *testing.T) {
	t.Parallel()
	streaming := make(chan struct{})
	var first sync.Once
	srv, options, _ := fakePlane(t, map[string]http.HandlerFunc{
		"GET /api/tasks/x": says(200, `{"id":"x","type":"tts","status":"running"}`),
		"GET /api/tasks/x/events": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte("event: state\ndata: {\"type\":\"state\",\"data\":{\"status\":\"running\",\"worker_id\":\"w1\"}}\n\n"))
			_ = http.NewResponseController(w).Flush()
			first.Do(func() { close(streaming) })
			<-r.Context().Done()
		},
	})
	c, err := client.Dial(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	var out, errs bytes.Buffer
	env := newEnvironment(strings.NewReader(""), &out, &errs)
	env.Output = "table"
	ended := make(chan error, 1)
	go func() { ended <- watchTasks(t.Context(), env, c, []string{"x"}, 3*time.Second) }()
	<-streaming
	_ = srv.Listener.Close() // nobody comes back
	srv.CloseClientConnections()
	err = <-ended
	if !errors.Is(err, client.ErrUnreachable) || clientCode(err) != cli.ExitUnreachable {
		t.Errorf("it ended with %v", err)
	}
	if n := strings.Count(out.String(), "the connection broke off and is made again"); n != 1 {
		t.Errorf("told %d times:\n%s", n, &out)
	}
}

// The result of a task is not lost with its files.
func TestTheResultIsPrintedWithoutItsFiles(t *testing.T) {
	t.Parallel()
	_, _, flags := fakePlane(t, map[string]http.HandlerFunc{
		"GET /api/tasks/x/result": says(200, `{"duration_ms":17,"artifacts":[{"name":"speech.wav","kind":"audio","media_type":"audio/wav","bytes":4,`+
			`"sha256":"`+strings.Repeat("a", 64)+`","url":"/api/artifacts/`+strings.Repeat("a", 64)+`"}],"meta":{"worker":"w1","attempt":1}}`),
		"GET /api/artifacts/": says(404, `{"detail":"no artifact aaaa"}`),
	})
	for _, output := range []string{"table", "json"} {
		code, stdout, stderr := invoke(append([]string{"tasks", "result", "x", "--save", filepath.Join(t.TempDir(), "out"), "-o", output}, flags...)...)
		if code != 1 || !strings.Contains(stdout, `"duration_ms": 17`) || !strings.Contains(stderr, "set control.url, control.ca_file and control.key_file on the agents") {
			t.Errorf("%s: code %d\n%s%s", output, code, stdout, stderr)
		}
	}
}
