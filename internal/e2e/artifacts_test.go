package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/agent/spool"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// speech is a task that leaves a WAV file.
var speech = queue.Submission{Type: "tts", Payload: json.RawMessage(`{"text":"Nothing is lost when something dies."}`)}

// artifact is the one artifact in the result of a task.
func artifact(t *testing.T, q *e2e.Queue, id string) spool.Record {
	t.Helper()
	raw, err := q.Result(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var result struct{ Artifacts []spool.Record }
	if err := json.Unmarshal(raw, &result); err != nil {
		t.Fatal(err)
	}
	if len(result.Artifacts) != 1 {
		t.Fatalf("the result has %d artifacts: %s", len(result.Artifacts), raw)
	}
	return result.Artifacts[0]
}

// wantSpeech checks that content is the WAV file of the record.
func wantSpeech(t *testing.T, content []byte, r spool.Record) {
	t.Helper()
	sum := sha256.Sum256(content)
	if hex.EncodeToString(sum[:]) != r.SHA256 || int64(len(content)) != r.Bytes {
		t.Errorf("%d bytes with another sha256 than the record says: %+v", len(content), r)
	}
	if !bytes.HasPrefix(content, []byte("RIFF")) || len(content) < 20_000 {
		t.Errorf("%d bytes do not look like speech", len(content))
	}
	if r.MediaType != "audio/wav" || r.Kind != "audio" || !r.ExpiresAt.After(time.Now()) {
		t.Errorf("record: %+v", r)
	}
}

// uploading is an agent that brings artifacts to a control plane.
func uploading(srv *redistest.Server, c *e2e.RunningControl) e2e.Agent {
	return e2e.Agent{
		RedisURL: srv.URL(), Executors: []string{"tts"},
		Config: fmt.Sprintf("control:\n  url: %q\n  ca_file: %q\n  key_file: %q\n", c.URL, c.CAPath, c.KeyPath),
	}
}

func TestArtifactIsUploadedAndDownloadable(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	c := e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	r := e2e.StartAgent(t, uploading(srv, c))
	r.AwaitClaiming()
	var receipt queue.Receipt
	c.Do("POST", "/api/tasks", `{"type":"tts","payload":`+string(speech.Payload)+`}`, &receipt)
	q.AwaitStatus(receipt.ID, queue.StatusCompleted)

	var result struct{ Artifacts []spool.Record }
	c.Do("GET", "/api/tasks/"+receipt.ID+"/result", "", &result)
	if len(result.Artifacts) != 1 {
		t.Fatalf("artifacts: %+v", result.Artifacts)
	}
	record := result.Artifacts[0]
	if want := "/api/artifacts/" + record.SHA256; record.URL != want {
		t.Errorf("url %q, want %q", record.URL, want)
	}
	code, content := c.Call("GET", record.URL, "")
	if code != http.StatusOK {
		t.Fatalf("download: %d %s", code, content)
	}
	wantSpeech(t, content, record)
	if code, _ := c.CallAs("", "GET", record.URL, ""); code != http.StatusUnauthorized {
		t.Errorf("without a key: %d", code)
	}
	if code, _ := c.CallAs("wrong", "GET", record.URL, ""); code != http.StatusUnauthorized {
		t.Errorf("with a wrong key: %d", code)
	}
	if code := r.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	e2e.Invariants{IDs: []string{receipt.ID}}.Check(t, q)
}

func TestArtifactWaitsForTheControlPlane(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	c := e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	r := e2e.StartAgent(t, uploading(srv, c))
	r.AwaitClaiming()
	c.Signal(syscall.SIGTERM)
	if code := c.Wait(); code != 0 {
		t.Fatalf("the control plane ended with %d", code)
	}
	id := q.One(speech)
	r.AwaitStatus("the upload is tried", func(s agent.Status) bool { return len(s.Running) == 1 && s.Running[0].Stage == "upload" })
	if got := q.Task(id).Status; got != queue.StatusRunning {
		t.Errorf("the task is %s before its artifact is safe", got)
	}
	c.Start()
	q.AwaitStatus(id, queue.StatusCompleted)
	record := artifact(t, q, id)
	code, content := c.Call("GET", record.URL, "")
	if code != http.StatusOK {
		t.Fatalf("download: %d %s", code, content)
	}
	wantSpeech(t, content, record)
	if task := q.Task(id); task.Attempt != 1 || task.RetryCount != 0 {
		t.Errorf("the wait cost attempts: %d, retries: %d", task.Attempt, task.RetryCount)
	}
}

func TestArtifactThatCannotBeUploadedFailsItsTask(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	c := e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	r := e2e.StartAgent(t, uploading(srv, c))
	r.AwaitClaiming()
	c.Kill()
	none := 0
	late := speech
	late.Timeout, late.MaxRetries = 3*time.Second, &none
	id := q.One(late)
	q.AwaitStatus(id, queue.StatusFailedPermanent)
	if task := q.Task(id); task.ErrorCode != "ARTIFACT_UPLOAD_FAILED" || task.LastError == "" {
		t.Errorf("error code %s: %s", task.ErrorCode, task.LastError)
	}
	if s := r.AwaitClaiming(); len(s.Running) != 0 {
		t.Errorf("still running: %+v", s.Running)
	}
}

func TestArtifactStaysWithAnAgentThatHasNoControlPlane(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	r := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"tts"}})
	r.AwaitClaiming()
	id := q.One(speech)
	q.AwaitStatus(id, queue.StatusCompleted)
	record := artifact(t, q, id)
	code, content := r.Get("/api/artifacts/" + record.SHA256)
	if code != http.StatusOK {
		t.Fatalf("download: %d %s", code, content)
	}
	wantSpeech(t, content, record)

	// It survives a restart, and anybody on this machine can fetch it.
	if code := r.Stop(); code != 0 {
		t.Fatalf("the agent ended with %d", code)
	}
	r.Start()
	api := r.AwaitStatus("the agent is back", func(s agent.Status) bool { return s.API != "" }).API
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: e2e.Patience}
	resp, err := client.Get("http://" + api + "/api/artifacts/" + record.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	again, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("over TCP: %d, %v", resp.StatusCode, err)
	}
	wantSpeech(t, again, record)
}
