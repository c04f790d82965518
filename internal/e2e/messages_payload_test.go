package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// badPayloads are what producers get wrong, and a part of what they are told.
var badPayloads = []struct{ name, payload, want string }{
	{"empty", ``, "payload: is empty"},
	{"blank", " \n\t", "payload: is empty"},
	{"a word", `undefined`, "payload: is not valid JSON: invalid character 'u' looking for beginning of value, at byte 0"},
	{"half an object", `{`, "payload: is not valid JSON: it ends too early, after byte 1"},
	{"half a string", `{"op":"ech`, "payload: is not valid JSON: it ends too early, after byte 10"},
	{"NaN", `NaN`, "NaN and Infinity are no JSON numbers"},
	{"NaN inside", `{"x":NaN}`, "invalid character 'N' looking for beginning of value (NaN and Infinity are no JSON numbers), at byte 5"},
	{"Infinity inside", `{"x":Infinity}`, "(NaN and Infinity are no JSON numbers), at byte 5"},
	{"minus Infinity inside", `{"x":-Infinity}`, "at byte 6"},
	{"a list", `[1,2]`, "payload: must be a JSON object, got a list"},
	{"a string", `"str"`, "payload: must be a JSON object, got a string"},
	{"a number", `12`, "payload: must be a JSON object, got a number"},
	{"a boolean", `true`, "payload: must be a JSON object, got true or false"},
	{"null", `null`, "payload: must be a JSON object, got null"},
	{"trailing garbage", `{"op":"echo"} x`, "payload: is not valid JSON: invalid character 'x' after top-level value, at byte 14"},
	{"two objects", `{} {}`, "at byte 3"},
	{"single quotes", `{'op':'echo'}`, "at byte 1"},
	{"a byte order mark", "\ufeff{}", "payload: begins with a byte order mark"},
	{"bytes that are no UTF-8", "{\"op\":\"echo\",\"value\":\"\xcb\"}", "payload: is not valid UTF-8"},
	{"a NUL", "{\"op\":\"ec\x00ho\"}", "payload: is not valid JSON"},
	{"too deep", strings.Repeat(`{"a":`, 20000) + `1` + strings.Repeat(`}`, 20000), "payload: is not valid JSON"},
}

// badTasks are payloads that only the executor can judge.
var badTasks = []struct{ name, payload, code, want string }{
	{"an unknown field", `{"op":"echo","valeu":1}`, "INVALID_INPUT", `valeu: is an unknown field, did you mean value?`},
	{"a field given twice", `{"op":"echo","value":1,"value":2}`, "INVALID_INPUT", "value: "},
	{"a field of the wrong type", `{"op":"sleep","ms":"10"}`, "INVALID_INPUT", `ms: must be a number, got "10"`},
	{"a number with a fraction", `{"op":"sleep","ms":1.5}`, "INVALID_INPUT", "ms: "},
	{"a number out of range", `{"op":"sleep","ms":-1}`, "INVALID_INPUT", "ms: must be 0 to 86400000, got -1"},
	{"an operation that is none", `{"op":"ehco"}`, "UNSUPPORTED", `type "general" has no operation "ehco"; supported: echo, sleep, http_check (did you mean echo?)`},
	{"an operation of the wrong type", `{"op":7}`, "INVALID_INPUT", "op: must be a string, got 7"},
	{"a timeout that is too short", `{"op":"echo","timeout_ms":1}`, "INVALID_INPUT", "timeout_ms: must be "},
	{"a depth of 2000 where a number belongs", `{"op":"sleep","ms":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`, "INVALID_INPUT", "ms: "},
	{"an address that may not be reached", `{"op":"http_check","url":"http://127.0.0.1:9/"}`, "EGRESS_DENIED", "executors.general.allow"},
}

// wantFailure checks how a task has ended.
func wantFailure(t *testing.T, q *e2e.Queue, what, id, code, want string) {
	t.Helper()
	q.AwaitStatus(id, queue.StatusFailedPermanent)
	task := q.Task(id)
	if task.ErrorCode != code || !strings.Contains(task.LastError, want) {
		t.Errorf("%s: code %s, %q; want %s, %q", what, task.ErrorCode, task.LastError, code, want)
	}
	if task.RetryCount != 0 || task.Attempt > 1 {
		t.Errorf("%s: %d retries, attempt %d: it cannot get better", what, task.RetryCount, task.Attempt)
	}
	clearSentence(t, what, task.LastError)
	raw, err := q.Redis.Get(context.Background(), "task:"+id+":failure").Result()
	if err != nil || !json.Valid([]byte(raw)) || !utf8.ValidString(raw) {
		t.Errorf("%s: the record of its failure is %q (%v)", what, raw, err)
	}
}

func TestB50BadPayloadsFromRedisFailAtOnce(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	a := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), ID: "ours", Executors: []string{"general"}, Slots: 8, Config: quietLog})
	a.AwaitClaiming()
	push := func(id, payload string) {
		t.Helper()
		ctx := context.Background()
		if err := q.Redis.HSet(ctx, "task:"+id, "id", id, "type", "general", "payload", payload, "status", "queued", "max_retries", "3").Err(); err != nil {
			t.Fatal(err)
		}
		if err := q.Redis.LPush(ctx, "queue:general", id).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i, tt := range badPayloads {
		push(fmt.Sprintf("bad-%d", i), tt.payload)
	}
	for i, tt := range badTasks {
		push(fmt.Sprintf("task-%d", i), tt.payload)
	}
	push("deep", `{"op":"echo","value":`+strings.Repeat("[", 2000)+strings.Repeat("]", 2000)+`}`)
	push("odd", `{"op":"echo","value":{"a":[],"n":130775545883395173,"f":1e-7,"d":9007199254740993,"z":"\u0000","k":{"":1},"s":"\/","u":"\ud800"}}`)
	for i, tt := range badPayloads {
		wantFailure(t, q, tt.name, fmt.Sprintf("bad-%d", i), "INVALID_INPUT", tt.want)
	}
	for i, tt := range badTasks {
		wantFailure(t, q, tt.name, fmt.Sprintf("task-%d", i), tt.code, tt.want)
	}
	q.AwaitAll([]string{"deep", "odd"}, queue.StatusCompleted)
	if raw := q.Redis.Get(t.Context(), "task:odd:result").Val(); !strings.Contains(raw, `"n":130775545883395173`) || !strings.Contains(raw, `"d":9007199254740993`) {
		t.Errorf("the value came back as %s", raw)
	}
	if left := q.Redis.Keys(t.Context(), "queue:*:processing").Val(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if out := a.Output(); len(out) > 200*(len(badPayloads)+len(badTasks))+4000 {
		t.Errorf("the agent logged %d bytes:\n%s", len(out), out)
	}
	noInsides(t, "the log of the agent", a.Output())
}

func TestB50BadPayloadsAreRefusedByTheAPI(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c := e2e.StartControl(t, e2e.Control{RedisURL: srv.URL(), Config: quietLog})
	for _, tt := range badPayloads {
		code, body := c.Call(http.MethodPost, "/api/tasks", `{"type":"general","payload":`+tt.payload+`}`)
		var answer struct{ Detail string }
		if err := json.Unmarshal(body, &answer); err != nil || code/100 != 4 && tt.payload != `null` {
			t.Errorf("%s: %d %s", tt.name, code, body)
			continue
		}
		if code/100 == 4 {
			clearSentence(t, tt.name, answer.Detail)
		}
		if strings.Contains(tt.payload, "\x00") || tt.payload == "" || len(tt.payload) > 100_000 {
			continue // cannot be an argument, or is none
		}
		r := c.CLI("tasks", "submit", "general", tt.payload)
		if r.Code != 2 || r.Stdout != "" {
			t.Errorf("%s: tasks submit: code %d, %s%s", tt.name, r.Code, r.Stdout, r.Stderr)
		}
		clearSentence(t, tt.name+" by tasks submit", r.Stderr)
	}
	noInsides(t, "the log of the control plane", c.Output())
	if strings.Contains(c.Output(), "internal error") || len(troubles(c.Output())) != 0 {
		t.Errorf("the control plane is troubled:\n%s", c.Output())
	}
}

// Bytes that are no text, from anywhere, end a task in the proper state.
func TestB51BytesThatAreNoText(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	c := e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	scripts := e2e.ShortDir(t)
	for name, text := range map[string]string{
		"noisy":  "printf 'it broke: \\377\\376\\000 \\355\\240\\200 end\\n' >&2; exit 1",
		"binary": "printf '\\377\\376\\000'",
		"untext": `printf '{"v":"\377"}'`,
	} {
		script := "#!/bin/sh\n" + text + "\n"
		if err := os.WriteFile(filepath.Join(scripts, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	dir := e2e.Executors(t, "general", "exec")
	a := e2e.StartAgent(t, e2e.Agent{
		RedisURL: srv.URL(), ID: "ours", Slots: 4,
		Config: fmt.Sprintf("executors:\n  trust: owner\n  dirs: [%q]\n  exec:\n    dir: %q\n", dir, scripts),
	})
	a.AwaitClaiming()
	none := 0
	for _, typ := range []string{"noisy", "binary", "untext"} {
		q.One(queue.Submission{ID: typ, Type: typ, Payload: []byte(`{}`), MaxRetries: &none})
	}
	// Bytes in the names of the hash and in its type.
	ctx := context.Background()
	q.Redis.HSet(ctx, "task:fields", "id", "fields", "type", "general", "payload", `{"op":"echo","value":1}`, "status", "queued", "\xff\xfe", "\xfe")
	q.Redis.HSet(ctx, "task:typed", "id", "typed", "type", "gen\xcberal", "payload", `{}`, "status", "queued")
	q.Redis.HSet(ctx, "task:by\xcbte", "id", "by\xcbte", "type", "general", "payload", `{"op":"echo","value":2}`, "status", "queued")
	for _, id := range []string{"fields", "typed", "by\xcbte"} {
		q.Redis.LPush(ctx, "queue:general", id)
	}
	q.AwaitStatus("fields", queue.StatusCompleted)
	e2e.Await(t, "nothing waits in the queue", func() bool { return q.Redis.LLen(ctx, "queue:general").Val() == 0 })
	for id, want := range map[string]string{"noisy": "it broke: ", "binary": "must print one JSON object"} {
		q.AwaitStatus(id, queue.StatusFailedPermanent)
		task := q.Task(id)
		if task.ErrorCode != "ENGINE_ERROR" || !strings.Contains(task.LastError, want) {
			t.Errorf("%s: %s: %s", id, task.ErrorCode, task.LastError)
		}
		clearSentence(t, id, task.LastError)
	}
	// Text that is JSON but for a byte of it gets a replacement character.
	q.AwaitStatus("untext", queue.StatusCompleted)
	if raw := q.Redis.Get(ctx, "task:untext:result").Val(); !json.Valid([]byte(raw)) || !utf8.ValidString(raw) {
		t.Errorf("the result is %q", raw)
	}
	for _, name := range []string{"typed", "by\xcbte"} {
		t.Logf("%q: %q", name, q.Redis.HGetAll(ctx, "task:"+name).Val())
	}
	for _, path := range []string{"/api/tasks", "/api/tasks/noisy", "/api/tasks/fields", "/api/queues", "/api/workers"} {
		code, body := c.Call(http.MethodGet, path, "")
		if code != http.StatusOK || !json.Valid(body) || !utf8.Valid(body) {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	e2e.Await(t, "no processing list is left", func() bool { return len(q.Redis.Keys(ctx, "queue:*:processing").Val()) == 0 })
}
