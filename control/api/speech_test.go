package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/control/artifacts"
	"github.com/autobot-fleet/autobot/queue"
)

const speechPath = "/v1/audio/speech"

// shelf is an artifact store with one file.
type shelf struct{ sha, content string }

func (s *shelf) Get(w http.ResponseWriter, r *http.Request, sha string) error {
	if sha != s.sha {
		return &artifacts.Error{Status: http.StatusNotFound, Message: "no such artifact"}
	}
	if r.Method != http.MethodGet || len(r.Header) > 0 {
		return &artifacts.Error{Status: http.StatusBadRequest, Message: "the store is asked for more than the file"}
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	_, err := io.WriteString(w, s.content)
	return err
}

func (s *shelf) Put(http.ResponseWriter, *http.Request, string) error { panic("not used") }

var spoken = &shelf{sha: strings.Repeat("a", 64), content: "ID3 speech"}

// speechRig answers each task of type tts with settle, once the API waits.
func speechRig(t *testing.T, settle func(r *rig, id string)) *rig {
	t.Helper()
	r := newRig(t, func(d *Deps) { d.Artifacts = spoken })
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-r.queue.watching:
				settle(r, r.lastTask())
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

func (r *rig) lastTask() string {
	defer r.queue.lock()()
	return r.queue.submitted[len(r.queue.submitted)-1].ID
}

// complete ends a task with audio.
func complete(sha string) func(r *rig, id string) {
	return func(r *rig, id string) {
		unlock := r.queue.lock()
		r.queue.results[id] = json.RawMessage(`{"artifacts":[{"kind":"audio","sha256":"` + sha + `"}]}`)
		unlock()
		r.queue.change(id, func(t *queue.Task) { t.Status = queue.StatusCompleted })
	}
}

func TestSpeechIsATaskWhoseAudioIsTheAnswer(t *testing.T) {
	t.Parallel()
	r := speechRig(t, complete(spoken.sha))
	for _, tt := range []struct {
		name, body, media, payload string
	}{
		{"the least", `{"input":"Hello."}`, "audio/mpeg", `{"artifacts":{"ttl_s":3600},"format":"mp3","op":"synthesize","text":"Hello."}`},
		{"everything", `{"model":"tts-1","input":"Hi","voice":"de","response_format":"flac","speed":2,"instructions":"","stream_format":"audio"}`, "audio/flac",
			`{"artifacts":{"ttl_s":3600},"format":"flac","op":"synthesize","rate_wpm":350,"text":"Hi","voice":"de"}`},
		{"the default voice as a word", `{"input":"Hi","voice":"default","response_format":"opus","speed":1}`, "audio/ogg",
			`{"artifacts":{"ttl_s":3600},"format":"opus","op":"synthesize","rate_wpm":175,"text":"Hi"}`},
		{"samples", `{"input":"Hi","response_format":"pcm"}`, "audio/pcm", `{"artifacts":{"ttl_s":3600},"format":"pcm_s16le","op":"synthesize","sample_rate":24000,"text":"Hi"}`},
	} {
		res, body := r.do("POST", speechPath, tt.body, "Authorization", "Bearer "+testKey, "Range", "bytes=0-1")
		if res.StatusCode != 200 || body != spoken.content || res.Header.Get("Content-Type") != tt.media || res.Header.Get("X-Task-ID") != r.lastTask() {
			t.Errorf("%s: %d %s %v", tt.name, res.StatusCode, body, res.Header)
		}
		s := r.queue.submitted[len(r.queue.submitted)-1]
		if s.Type != "tts" || string(s.Payload) != tt.payload {
			t.Errorf("%s: submitted %s %s\nwant %s", tt.name, s.Type, s.Payload, tt.payload)
		}
	}
}

func TestSpeechRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(d *Deps) { d.Artifacts = spoken })
	for _, tt := range []struct {
		name, body string
		status     int
		answer     string
	}{
		{"no text", `{"input":" "}`, 400, `{"error":{"message":"input: is required: the text to speak","type":"invalid_request_error","param":"input","code":"invalid_value"}}`},
		{"aac", `{"input":"a","response_format":"aac"}`, 400, `there are flac, mp3, opus, pcm, wav`},
		{"another model", `{"input":"a","model":"tts-2"}`, 404, `"param":"model","code":"model_not_found"`},
		{"a speed of that API that nobody here speaks at", `{"input":"a","speed":4}`, 400, `0.46 to 2.57`},
		{"a speed out of range", `{"input":"a","speed":0.2}`, 400, `must be 0.25 to 4`},
		{"instructions", `{"input":"a","instructions":"whisper"}`, 400, `"param":"instructions"`},
		{"events", `{"input":"a","stream_format":"sse"}`, 400, `"param":"stream_format"`},
		{"an unknown field", `{"input":"a","voise":"x"}`, 400, `did you mean \"voice\"?`},
		{"a voice that is no word", `{"input":"a","voice":{"id":"x"}}`, 400, `voice: must be a string`},
		{"no JSON", `input`, 400, `"param":"body"`},
	} {
		res, body := r.do("POST", speechPath, tt.body)
		if res.StatusCode != tt.status || !strings.Contains(body, tt.answer) {
			t.Errorf("%s: %d %s", tt.name, res.StatusCode, body)
		}
		var told SpeechError
		if err := json.Unmarshal([]byte(body), &told); err != nil || told.Error.Message == "" || told.Error.Type == "" {
			t.Errorf("%s: another shape: %s", tt.name, body)
		}
	}
	for name, header := range map[string][]string{
		"nobody":        {"X", ""},
		"a wrong key":   {"Authorization", "Bearer sk-wrong"},
		"a wrong token": {"Authorization", "Bearer a.b.c"},
	} {
		if res, body := r.do("POST", speechPath, `{"input":"a"}`, header...); res.StatusCode != 401 || !strings.Contains(body, `"code":"invalid_api_key"`) {
			t.Errorf("%s: %d %s", name, res.StatusCode, body)
		}
	}
	if res, body := r.do("POST", speechPath, `{"input":"a"}`, "Authorization", "Bearer "+r.user); res.StatusCode != 403 || !strings.Contains(body, `{"error":{"message":"Insufficient`) {
		t.Errorf("role user: %d %s", res.StatusCode, body)
	}
	if res, _ := r.do("GET", "/api/tasks", "", "Authorization", "Bearer "+testKey); res.StatusCode != 401 {
		t.Errorf("elsewhere the key is no token, got %d", res.StatusCode)
	}
	if len(r.queue.submitted) > 0 {
		t.Errorf("submitted: %v", r.queue.submitted)
	}
	newRig(t).want("POST", speechPath, `{"input":"a"}`, 503, "~artifact store")
}

func TestSpeechThatFails(t *testing.T) {
	t.Parallel()
	fail := func(code, document string) func(*rig, string) {
		return func(r *rig, id string) {
			unlock := r.queue.lock()
			r.queue.failures[id] = json.RawMessage(document)
			unlock()
			r.queue.change(id, func(t *queue.Task) {
				t.Status, t.ErrorCode, t.LastError = queue.StatusFailedPermanent, code, "in short"
			})
		}
	}
	for _, tt := range []struct {
		name   string
		settle func(*rig, string)
		status int
		want   []string
	}{
		{"a voice that nobody has", fail("NOT_FOUND", `{"error":{"code":"NOT_FOUND","message":"voice: \"alloy\" is not there","field":"voice","hint":"nearest: af"}}`),
			400, []string{`voice: \"alloy\" is not there (nearest: af) (task `, `"param":"voice"`, `"code":"not_found"`, "invalid_request_error"}},
		{"too long", fail("INVALID_INPUT", `{"error":{"code":"INVALID_INPUT","message":"text: has 6000 characters","field":"text"}}`),
			400, []string{`"message":"input: has 6000`, `"param":"input"`}},
		{"no encoder", fail("UNSUPPORTED", `{"error":{"code":"UNSUPPORTED","message":"format: mp3 needs lame","field":"format"}}`),
			400, []string{`"message":"response_format: mp3 needs lame`, `"param":"response_format"`}},
		{"no engine", fail("ENGINE_UNAVAILABLE", ``), 503, []string{"in short", "server_error", `"param":null`}},
		{"a foreign worker", fail("", `"odd"`), 502, []string{"in short", `"code":null`}},
		{"no audio", complete(""), 502, []string{"did not bring the audio"}},
		{"audio that stayed on the worker", complete(strings.Repeat("b", 64)), 502, []string{"control.url"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			res, body := speechRig(t, tt.settle).do("POST", speechPath, `{"input":"a"}`)
			for _, want := range tt.want {
				if res.StatusCode != tt.status || !strings.Contains(body, want) {
					t.Errorf("want %d and %s, got %d %s", tt.status, want, res.StatusCode, body)
				}
			}
		})
	}
}

func TestSpeechThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		set    func(a *API)
		status int
		want   string
		after  queue.Status
	}{
		{"late: the task goes on", func(a *API) { a.tune.speech = time.Millisecond }, 504, "/result", queue.StatusQueued},
		{"no worker: cancelled", func(a *API) {
			a.tune.poll = time.Millisecond
			a.Queue.(*fakeQueue).queues = []queue.QueueInfo{{Name: "normal:tts"}}
		}, 503, "none serves queue", queue.StatusCancelled},
		{"stopping: the task goes on", func(a *API) { close(a.stopping); a.stopOnce.Do(func() {}) }, 503, "is stopping", queue.StatusQueued},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(d *Deps) { d.Artifacts = spoken })
			tt.set(r.api)
			res, body := r.do("POST", speechPath, `{"input":"a"}`)
			id := r.lastTask()
			if res.StatusCode != tt.status || !strings.Contains(body, tt.want) || tt.after == queue.StatusQueued && !strings.Contains(body, id) {
				t.Errorf("got %d %s", res.StatusCode, body)
			}
			if task, err := r.queue.Get(t.Context(), id); err != nil || task.Status != tt.after {
				t.Errorf("the task is %+v, %v", task, err)
			}
		})
	}
}

func TestACallerWhoGoesCancelsTheSpeech(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(d *Deps) { d.Artifacts = spoken })
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+speechPath, strings.NewReader(`{"input":"a"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Internal-API-Key", testKey)
	go func() {
		<-r.queue.watching
		leave()
	}()
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err == nil {
		_ = res.Body.Close()
		t.Fatalf("answered with %d", res.StatusCode)
	}
	// The server notices that the caller has gone a moment later.
	deadline := time.Now().Add(3 * time.Minute)
	for {
		task, err := r.queue.Get(t.Context(), r.lastTask())
		if err != nil {
			t.Fatal(err)
		}
		if task.Status == queue.StatusCancelled {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the task is %s", task.Status)
		}
		time.Sleep(time.Millisecond)
	}
	if err := r.api.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

// Whatever is sent becomes a task that the queue takes, or a refusal.
func FuzzSpeechRequest(f *testing.F) {
	for _, seed := range []string{
		`{"input":"Hello."}`, `{"model":"tts-1","input":"Hi","voice":"de","response_format":"flac","speed":2}`,
		`{"input":"a","speed":1e400}`, `{"input":"a","speed":-0}`, `{"input":"\u0000","voice":"\n"}`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var req SpeechRequest
		if _, err := decodeObject(body, "", &req); err != nil {
			return
		}
		s, err := req.submission()
		if err != nil {
			return
		}
		if err := s.Validate(); err != nil {
			t.Errorf("%s became a task that the queue refuses: %v", body, err)
		}
		var payload struct {
			Text string `json:"text"`
			Rate *int   `json:"rate_wpm"`
		}
		if err := json.Unmarshal(s.Payload, &payload); err != nil || strings.TrimSpace(payload.Text) == "" {
			t.Errorf("%s became %s, %v", body, s.Payload, err)
		}
		if payload.Rate != nil && (*payload.Rate < slowestWords || *payload.Rate > fastestWords) {
			t.Errorf("%s became %s", body, s.Payload)
		}
	})
}
