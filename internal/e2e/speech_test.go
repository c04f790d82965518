package e2e_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// speaker is a client of the speech API that knows an address and a key, as
// those of the OpenAI API do.
type speaker struct {
	url, key string
	http     *http.Client
}

func newSpeaker(t *testing.T, c *e2e.RunningControl) *speaker {
	t.Helper()
	key, err := os.ReadFile(c.KeyPath)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(c.CAPath)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &speaker{c.URL + "/v1/audio/speech", strings.TrimSpace(string(key)), &http.Client{Transport: tr}}
}

func (s *speaker) say(ctx context.Context, body string) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	req.Header.Set("Content-Type", "application/json")
	res, err := s.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	content, err := io.ReadAll(res.Body)
	return res, content, err
}

func TestProgramsThatKnowAnotherSpeechAPISpeakThroughTheFleet(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c := e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	e2e.StartAgent(t, uploading(srv, c)).AwaitClaiming()
	s := newSpeaker(t, c)
	for _, tt := range []struct {
		name, body string
		status     int
		media      string
		begins     string
		part       string
	}{
		{"as WAV", `{"model":"tts-1","input":"Hello world.","response_format":"wav"}`, 200, "audio/wav", "RIFF", ""},
		{"as FLAC, fast", `{"model":"tts","input":"Hello world.","voice":"default","response_format":"flac","speed":1.5}`, 200, "audio/flac", "fLaC", ""},
		{"as samples", `{"input":"Hello world.","response_format":"pcm"}`, 200, "audio/pcm", "", ""},
		{"a voice that nobody has", `{"input":"Hello.","voice":"en-uss","response_format":"wav"}`, 400, "application/json", `{"error":{"message":"voice \"en-uss\" is not installed; nearest: en-us`, `"param":"voice"`},
		{"too much text", `{"input":"` + strings.Repeat("a ", 3000) + `","response_format":"wav"}`, 400, "application/json", `{"error":{"message":"input: `, `"param":"input"`},
	} {
		res, content, err := s.say(t.Context(), tt.body)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if res.StatusCode != tt.status || res.Header.Get("Content-Type") != tt.media || !bytes.HasPrefix(content, []byte(tt.begins)) || !bytes.Contains(content, []byte(tt.part)) {
			t.Errorf("%s: %d %s %.300q", tt.name, res.StatusCode, res.Header.Get("Content-Type"), content)
		}
		if tt.status == 200 && len(content) < 5000 {
			t.Errorf("%s: %d bytes do not look like speech", tt.name, len(content))
		}
	}
}

func TestSpeechOfACallerWhoHasGoneIsCancelled(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	c := e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	e2e.StartAgent(t, uploading(srv, c)).AwaitClaiming()
	c.Do("POST", "/api/queues/normal:tts/pause", "", nil)
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, _, err := newSpeaker(t, c).say(ctx, `{"input":"Hello world.","response_format":"wav"}`)
		gone <- err
	}()
	var page struct{ Tasks []queue.Task }
	e2e.Await(t, "the task is submitted", func() bool {
		_, list := c.Call("GET", "/api/tasks?type=tts", "")
		return json.Unmarshal(list, &page) == nil && len(page.Tasks) == 1
	})
	leave()
	if err := <-gone; err == nil {
		t.Error("a caller who has gone was answered")
	}
	q.AwaitStatus(page.Tasks[0].ID, queue.StatusCancelled)
}
