package api

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/queue"
)

func TestSubmit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	payload := `{"a":[],"n":130775545883395173,"f":1e-7,"d":9007199254740993,"z":"\u0000","k":{"":1},"s":"\/", "x" : 1 }`
	r.want("POST", "/api/tasks", `{"id":"t1","type":"tts","payload":`+payload+`,"priority":3,"max_retries":0,"timeout":1.5,"delay":-3,
		"unique_key":"k","exclude":["w1"],"labels":{"a":"b"},"trace":"00-1-1-00","queue":null}`,
		200, `{"task_id":"t1","queue":"high:tts","status":"queued"}`)
	zero := 0
	want := queue.Submission{ID: "t1", Type: "tts", Payload: json.RawMessage(payload), Priority: queue.PriorityHigh, MaxRetries: &zero,
		Timeout: 1500 * time.Millisecond, UniqueKey: "k", Exclude: []string{"w1"}, Labels: map[string]string{"a": "b"}, Trace: "00-1-1-00", Queue: "high:tts"}
	if d := cmp.Diff(want, r.queue.submitted[0]); d != "" {
		t.Error(d)
	}
	r.want("POST", "/api/tasks", `{"id":"t1","type":"tts"}`, 409, `{"detail":"id: a task with this id exists already: t1","task_id":"t1"}`)
	r.want("POST", "/api/tasks", `{"type":"tts","unique_key":"k"}`, 409, `{"detail":"unique key \"k\" is held by task t1, which has not ended","task_id":"t1"}`)
}

func TestSubmitRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, tt := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"no body", ``, 400, `"body: is not valid JSON`},
		{"broken JSON", `{"type":`, 400, `"body: is not valid JSON: unexpected end of JSON input at byte 8`},
		{"trailing data", `{"type":"a"} x`, 400, `body: is not valid JSON`},
		{"a string", `"tts"`, 400, `body: must be a JSON object, got a string`},
		{"null", `null`, 400, `body: must be a JSON object, got null`},
		{"not UTF-8", "{\"type\":\"\xff\"}", 400, `body: is not valid UTF-8`},
		{"no type", `{}`, 400, `type: is required`},
		{"an unknown field", `{"type":"a","prority":"high"}`, 400, `prority: is unknown (did you mean \"priority\"?)`},
		{"a field in capitals", `{"Type":"a"}`, 400, `Type: is unknown (did you mean \"type\"?)`},
		{"a field like nothing", `{"type":"a","zzzzzzzzzzzz":1}`, 400, `zzzzzzzzzzzz: is unknown (known: deadline, delay`},
		{"a type that is no string", `{"type":7}`, 400, `type: must be a string, got 7`},
		{"retries in words", `{"type":"a","max_retries":"three"}`, 400, `max_retries: must be a whole number, got \"three\"`},
		{"half a retry", `{"type":"a","max_retries":1.5}`, 400, `max_retries: must be a whole number, got 1.5`},
		{"negative retries", `{"type":"a","max_retries":-1}`, 400, `max_retries: must be 0..1000`},
		{"a label that is a number", `{"type":"a","labels":{"n":1}}`, 400, `labels`},
		{"a payload that is a list", `{"type":"a","payload":[1]}`, 400, `payload: must be a JSON object, got a list`},
		{"an unknown priority", `{"type":"a","priority":"urgent"}`, 400, `priority: must be critical, high`},
		{"priority 5", `{"type":"a","priority":5}`, 400, `priority: must be critical, high`},
		{"priority as a list", `{"type":"a","priority":[]}`, 400, `priority: must be critical, high`},
		{"an id with a separator", `{"type":"a","id":"t1:x"}`, 400, `id: must be`},
		{"an id that is a key of another task", `{"type":"a","id":"t1:result"}`, 400, `id: must not end in \":result\"`},
		{"an empty id", `{"type":"a","id":""}`, 400, `id: must not be empty`},
		{"a queue of ours", `{"type":"a","queue":"x:processing"}`, 400, `queue:`},
		{"both times", `{"type":"a","run_at":1773626400,"delay":5}`, 400, `delay: cannot be given together with run_at`},
		{"both times, delay zero", `{"type":"a","run_at":1773626400,"delay":0}`, 400, `delay: cannot be given together with run_at`},
		{"a time without a zone", `{"type":"a","run_at":"2026-03-16T02:00:00"}`, 400, `run_at: must be a time with a zone`},
		{"milliseconds", `{"type":"a","run_at":1773626400000}`, 400, `run_at: must be in Unix seconds`},
		{"a time as a list", `{"type":"a","deadline":[]}`, 400, `deadline: must be a time`},
		{"a delay of ages", `{"type":"a","delay":1e300}`, 400, `delay: is out of range`},
		{"a timeout of a year", `{"type":"a","timeout":31536000}`, 400, `timeout: must be between`},
		{"a negative timeout", `{"type":"a","timeout":-1}`, 400, `timeout: must be between`},
		{"a result kept for no time", `{"type":"a","result_ttl":0.1}`, 400, `result_ttl: must be between`},
		{"an excluded worker with a colon", `{"type":"a","exclude":["a:b"]}`, 400, `exclude[0]: `},
		{"a trace on two lines", `{"type":"a","trace":"a\nb"}`, 400, `trace: must be printable ASCII`},
		{"a large payload", `{"type":"a","payload":{"x":"` + strings.Repeat("x", queue.MaxPayload) + `"}}`, 413, `TOO_LARGE: payload has 1048`},
		{"a large envelope", `{"type":"a","trace":"` + strings.Repeat("x", maxBody) + `"}`, 413, `TOO_LARGE: body has`},
		{"a body beyond everything", `{"type":"a"` + strings.Repeat(" ", maxBulkBody) + `}`, 413, `the body is larger than`},
		{"too many", `[` + strings.Repeat(`{},`, maxBulk) + `{}]`, 413, `the list has more than 1000 submissions`},
		{"more after a list", `[{"type":"a"}] {}`, 400, `more data after the list`},
		{"a list with a wrong end", `[{"type":"a"}}`, 400, `body: is not valid JSON`},
		{"a broken list", `[{"type":"a"},`, 400, `body: is not valid JSON`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			r.want("POST", "/api/tasks", tt.body, tt.status, "~"+tt.want)
		})
	}
	if n := len(r.queue.submitted); n != 0 {
		t.Errorf("%d refused submissions reached the queue", n)
	}
	r.t = t
	res, body := r.do("POST", "/api/tasks", "x", "X-Internal-API-Key", testKey, "Content-Encoding", "gzip")
	if res.StatusCode != 415 {
		t.Errorf("a compressed body: %d %s", res.StatusCode, body)
	}
}

func TestSubmitMany(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want("POST", "/api/tasks", ` [{"type":"a","id":"1"},{"type":"a","id":"1"},{"typ":"a"},{"type":"b","unique_key":"u","id":"2"},{"type":"b","unique_key":"u"},7]`, 200,
		`[{"task_id":"1","queue":"normal:a","status":"queued"},`+
			`{"task_id":"1","detail":"id: a task with this id exists already: 1","code":409},`+
			`{"detail":"[2].typ: is unknown (did you mean \"type\"?)","code":400},`+
			`{"task_id":"2","queue":"normal:b","status":"queued"},`+
			`{"task_id":"2","detail":"unique key \"u\" is held by task 2, which has not ended","code":409},`+
			`{"detail":"[5]: must be a JSON object, got a number","code":400}]`)
	r.want("POST", "/api/tasks", `[]`, 200, `[]`)
	r.want("POST", "/api/tasks", `[{"type":"a","trace":"`+strings.Repeat("x", maxBody)+`"}]`, 200, `~TOO_LARGE: [0] has`)
	r.want("POST", "/api/tasks", `[{}]`, 200, `[{"detail":"[0].type: is required","code":400}]`)
}

func FuzzSubmission(f *testing.F) {
	for _, s := range []string{
		`{"type":"tts","payload":{"text":"x"},"priority":2,"delay":1}`, `{"type":"a","run_at":"2026-03-16T02:00:00Z"}`,
		`{"type":"a","run_at":1e10,"labels":{"a":"b"},"exclude":["w"]}`, `{"type":"a","timeout":1e308,"max_retries":99999999999999999999}`,
		`[]`, `{`, `null`, "{\"type\":\"\xff\"}", `{"type":"a","payload":{"x":1}}`, `{"type":"a","priority":"4"}`, `{"type":"a","deadline":-0.0}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeSubmission(b, "[0]")
		if err == nil {
			if err := s.Validate(); err != nil {
				t.Errorf("accepted %q, which is invalid: %v", b, err)
			}
			if len(s.Payload) > 0 && !bytes.Contains(b, s.Payload) {
				t.Errorf("the payload %q is not what was sent in %q", s.Payload, b)
			}
			return
		}
		p := translate(err)
		if p.status != 400 && p.status != 413 || p.detail == "" {
			t.Errorf("%q is answered with %d %q", b, p.status, p.detail)
		}
		if !json.Valid(mustJSON(apiwire.Problem{Detail: p.detail})) {
			t.Errorf("the answer to %q is not JSON", b)
		}
	})
}
