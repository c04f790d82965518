package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/autobot-fleet/autobot/control/auth"
	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/internal/leaktest"
	"github.com/autobot-fleet/autobot/internal/redisconn"
	"github.com/autobot-fleet/autobot/queue"
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
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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

func TestRefusalsAreByteIdentical(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const required = `{"detail":"Authentication required: Authentication required"}`
	noRole := "Bearer " + mint(t, "")
	for _, tt := range []struct {
		name, method, path string
		header             []string
		status             int
		body, challenge    string
	}{
		{"nothing", "GET", "/api/tasks", []string{"X", ""}, 401, required, "Bearer"},
		{"wrong key", "POST", "/api/tasks", []string{"X-Internal-API-Key", "wrong"}, 401, required, "Bearer"},
		{"wrong token", "GET", "/api/workers", []string{"Authorization", "Bearer x.y.z"}, 401, required, "Bearer"},
		{"user may not submit", "POST", "/api/tasks", []string{"Authorization", "Bearer " + r.user}, 403,
			`{"detail":"Insufficient permissions: Admin permission required for this operation"}`, ""},
		{"user may read", "GET", "/api/tasks", []string{"Authorization", "bearer " + r.user}, 200, `{"tasks":[]}`, ""},
		{"no role", "GET", "/api/tasks", []string{"Authorization", noRole}, 401,
			`{"detail":"Authentication required: User role not assigned - access denied"}`, "Bearer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, body := r.do(tt.method, tt.path, "", tt.header...)
			if res.StatusCode != tt.status || body != tt.body || res.Header.Get("WWW-Authenticate") != tt.challenge {
				t.Errorf("%d %s %v", res.StatusCode, body, res.Header)
			}
			if res.Header.Get("Content-Type") != "application/json" {
				t.Errorf("Content-Type %q", res.Header.Get("Content-Type"))
			}
		})
	}
	for range 12 {
		if res, body := r.do("GET", "/api/tasks", "", "X-Internal-API-Key", "wrong"); res.StatusCode == 429 {
			if body != `{"detail":"Too many auth failures"}` || res.Header.Get("Retry-After") == "" {
				t.Errorf("%s %v", body, res.Header)
			}
			return
		}
	}
	t.Error("wrong keys are never limited")
}

func mint(t *testing.T, role string) string {
	t.Helper()
	return signClaims(t, map[string]any{"username": "eve", "role": role, "exp": time.Now().Add(time.Hour).Unix()})
}

func TestEveryRouteNeedsCredentials(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, rt := range r.api.table() {
		method, path, _ := strings.Cut(rt.pattern, " ")
		path = strings.NewReplacer("{id}", "x", "{name}", "x", "{sha256}", strings.Repeat("0", 64)).Replace(path)
		res, body := r.do(method, path, "", "X", "")
		if (rt.who == open) != (res.StatusCode != 401) {
			t.Errorf("%s without credentials: %d %s", rt.pattern, res.StatusCode, body)
		}
		if rt.who == admin {
			if res, body := r.do(method, path, "", "Authorization", "Bearer "+r.user); res.StatusCode != 403 {
				t.Errorf("%s as user: %d %s", rt.pattern, res.StatusCode, body)
			}
		}
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.want("GET", "/nothing", "", 404, `{"detail":"Not Found"}`)
	r.want("GET", "/api", "", 404, `{"detail":"Not Found"}`)
	r.want("PATCH", "/api/tasks/x", "", 405, `{"detail":"Method Not Allowed"}`)
	if res, _ := r.do("PUT", "/api/tasks", ""); res.Header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("Allow: %q", res.Header.Get("Allow"))
	}
	r.want("GET", "/api/tasks/", "", 200, `{"tasks":[]}`)
	r.want("POST", "/api/tasks/", `{"type":"general","id":"slash"}`, 200, `~"slash"`)
	if res, body := r.do("HEAD", "/api/tasks", ""); res.StatusCode != 200 || body != "" {
		t.Errorf("HEAD: %d %s", res.StatusCode, body)
	}
}

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

func TestTasks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := time.Unix(1773626400, 123456000)
	r.queue.put(queue.Task{ID: "t1", Type: "tts", Payload: []byte(`{"n":9007199254740993}`), Status: queue.StatusQueued, Priority: "high",
		CreatedAt: at, Timeout: 90 * time.Second, MaxRetries: 3})
	r.queue.put(queue.Task{ID: "foreign", Type: "x", Payload: []byte("not <json> \xff"), Status: "odd", LastError: "bad \xff bytes", Extra: map[string]string{"f\xff": "v"}})
	r.queue.put(queue.Task{ID: "nan", Type: "x", Payload: []byte(`{"x":NaN}`), Status: queue.StatusRunning})
	r.queue.put(queue.Task{ID: "deep", Type: "x", Payload: []byte(strings.Repeat("[", 20000)), Status: queue.StatusFailedPermanent})
	r.queue.put(queue.Task{ID: "a/b c", Type: "x", Status: queue.StatusQueued})

	r.want("GET", "/api/tasks/t1", "", 200, `{"id":"t1","type":"tts","status":"queued","priority":"high","max_retries":3,"retry_count":0,"attempt":0,`+
		`"created_at":"2026-03-16T02:00:00.123456+00:00","payload":{"n":9007199254740993},"timeout":90,"result_available":false}`)
	r.want("GET", "/api/tasks/foreign", "", 200, `~"payload":"not <json> �"`)
	r.want("GET", "/api/tasks/foreign", "", 200, `~"last_error":"bad `)
	r.want("GET", "/api/tasks/nan", "", 200, `~"payload":"{\"x\":NaN}"`)
	r.want("GET", "/api/tasks/deep", "", 200, `~"payload":"[[[`)
	r.want("GET", "/api/tasks/a%2Fb%20c", "", 200, `~"id":"a/b c"`)
	r.want("GET", "/api/tasks/none", "", 404, `{"detail":"read task \"none\": no such task"}`)
	r.want("GET", "/api/tasks/"+strings.Repeat("x", 600), "", 400, `~id:`)

	_, body := r.do("GET", "/api/tasks?type=tts", "")
	if strings.Contains(body, "payload") || !strings.Contains(body, `"created_at":"2026-03-16T02:00:00.123456+00:00"`) {
		t.Errorf("a list: %s", body)
	}
	var page apiwire.TaskPage
	if err := json.Unmarshal([]byte(body), &page); err != nil || len(page.Tasks) != 1 || !page.Tasks[0].CreatedAt.Equal(at) {
		t.Errorf("as a client reads it: %+v, %v", page, err)
	}
	_, body = r.do("GET", "/api/tasks?limit=2", "")
	if !strings.Contains(body, `"cursor":"deep"`) {
		t.Errorf("a page: %s", body)
	}
	r.want("GET", "/api/tasks?limit=2&cursor=deep", "", 200, `~"cursor":"nan"`)
	r.want("GET", "/api/tasks?status=done", "", 400, `~query.status: must be one of`)
	r.want("GET", "/api/tasks?stauts=queued", "", 400, `{"detail":"query.stauts: is unknown (did you mean \"status\"?)"}`)
	r.want("GET", "/api/tasks?limit=0", "", 400, `~query.limit: must be a whole number 1..1000`)
	r.want("GET", "/api/tasks?limit=1&limit=2", "", 400, `~query.limit: is given 2 times`)
	r.want("GET", "/api/tasks?a;b", "", 400, `~the query cannot be read`)
}

func TestResult(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, s := range []queue.Status{queue.StatusQueued, queue.StatusRunning, queue.StatusCompleted, queue.StatusCancelled} {
		r.queue.put(queue.Task{ID: string(s), Status: s})
	}
	r.queue.put(queue.Task{ID: "done", Status: queue.StatusCompleted})
	r.queue.put(queue.Task{ID: "garbage", Status: queue.StatusCompleted})
	r.queue.put(queue.Task{ID: "failed", Status: queue.StatusFailedPermanent, ErrorCode: "DEVICE_UNAVAILABLE", LastError: "no NPU"})
	r.queue.put(queue.Task{ID: "bare", Status: queue.StatusFailedPermanent, LastError: "Worker w died; retries exhausted"})
	r.queue.put(queue.Task{ID: "odd", Status: queue.StatusFailedPermanent, ErrorCode: "INVALID_INPUT", LastError: "text"})
	r.queue.results["done"] = json.RawMessage(`{"n":9007199254740993,"meta":{}}`)
	r.queue.results["garbage"] = json.RawMessage("\xffnot json")
	r.queue.failures["failed"] = json.RawMessage(`{"error":{"code":"DEVICE_UNAVAILABLE","message":"no NPU","retryable":true,"hint":"look"},"artifacts":[],"meta":{"attempt":4}}`)
	r.queue.failures["odd"] = json.RawMessage(`"oops`)

	r.want("GET", "/api/tasks/none/result", "", 404, `~no such task`)
	r.want("GET", "/api/tasks/queued/result", "", 409, `~has not finished`)
	r.want("GET", "/api/tasks/running/result", "", 409, `~has not finished`)
	r.want("GET", "/api/tasks/completed/result", "", 410, `{"detail":"result of task \"completed\": the result has expired"}`)
	r.want("GET", "/api/tasks/done/result", "", 200, `{"n":9007199254740993,"meta":{}}`)
	r.want("GET", "/api/tasks/garbage/result", "", 200, `"�not json"`)
	r.want("GET", "/api/tasks/cancelled/result", "", 499, `{"detail":"task \"cancelled\": the task ended as cancelled","task_id":"cancelled","status":"cancelled","error":{"code":"CANCELLED","message":"","retryable":false}}`)
	r.want("GET", "/api/tasks/failed/result", "", 503, `{"detail":"task \"failed\": the task ended as failed_permanent: no NPU","task_id":"failed","status":"failed_permanent",`+
		`"error":{"code":"DEVICE_UNAVAILABLE","message":"no NPU","retryable":true,"hint":"look"},"artifacts":[],"meta":{"attempt":4}}`)
	r.want("GET", "/api/tasks/bare/result", "", 500, `~"message":"Worker w died; retries exhausted"`)
	r.want("GET", "/api/tasks/odd/result", "", 400, `~"code":"INVALID_INPUT"`)
	r.want("GET", "/api/tasks/done", "", 200, `~"result_available":true`)
	r.want("GET", "/api/tasks/completed", "", 200, `~"result_available":false`)
	r.want("GET", "/api/tasks/failed", "", 200, `~"failure":{"error":`)
}

func TestOperators(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, s := range []queue.Status{queue.StatusQueued, queue.StatusRunning, queue.StatusCompleted, queue.StatusFailedPermanent} {
		r.queue.put(queue.Task{ID: string(s), Status: s})
	}
	r.want("POST", "/api/tasks/running/cancel", "", 200, `{"task_id":"running","status":"running"}`)
	if r.queue.lastBy != "internal" {
		t.Errorf("cancelled by %q", r.queue.lastBy)
	}
	r.want("POST", "/api/tasks/completed/cancel", "", 409, `{"detail":"task \"completed\" is completed: the task's state does not allow this"}`)
	r.want("POST", "/api/tasks/none/cancel", "", 404, `~no such task`)
	r.want("POST", "/api/tasks/queued/priority", `{"priority":"critical"}`, 200, `{"task_id":"queued","status":"queued"}`)
	r.want("POST", "/api/tasks/queued/priority", `{"priority":1}`, 200, `{"task_id":"queued","status":"queued"}`)
	if p := r.queue.tasks["queued"].Priority; p != queue.PriorityLow {
		t.Errorf("priority %q", p)
	}
	r.want("POST", "/api/tasks/queued/priority", ``, 400, `{"detail":"priority: is required"}`)
	r.want("POST", "/api/tasks/queued/priority", `{"priorty":1}`, 400, `~did you mean`)
	r.want("POST", "/api/tasks/queued/priority", `{"priority":"x"}`, 400, `~priority: must be`)
	r.want("POST", "/api/tasks/running/priority", `{"priority":1}`, 409, `~does not allow`)
	r.want("POST", "/api/tasks/queued/cancel", "", 200, `{"task_id":"queued","status":"cancelled"}`)
	r.want("POST", "/api/tasks/queued/retry", "", 200, `{"task_id":"queued","status":"queued"}`)
	r.want("POST", "/api/tasks/running/retry", "", 409, `~does not allow`)
	r.want("DELETE", "/api/tasks/running", "", 409, `~does not allow`)
	r.want("DELETE", "/api/tasks/completed", "", 200, `{"task_id":"completed","status":"deleted"}`)
	r.want("DELETE", "/api/tasks/completed", "", 404, `~no such task`)

	r.want("POST", "/api/queues/high:tts/pause", "", 200, `{"queue":"high:tts","paused":true}`)
	r.want("GET", "/api/queues", "", 200, `{"queues":[{"name":"high:tts","waiting":3,"processing":1,"paused":true,"watchers":-1,"oldest_seconds":1.5}]}`)
	r.want("POST", "/api/queues/high:tts/resume", "", 200, `{"queue":"high:tts","paused":false}`)
}

func TestRetryMany(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 7 {
		r.queue.put(queue.Task{ID: fmt.Sprint("t", i), Type: "tts", Status: queue.StatusFailedPermanent})
	}
	r.queue.put(queue.Task{ID: "t7", Type: "tts", Status: queue.StatusFailedPermanent, LastError: "sticky"})
	r.queue.put(queue.Task{ID: "u", Type: "other", Status: queue.StatusFailedPermanent})

	r.want("POST", "/api/tasks/retry", ``, 400, `~needs at least one of`)
	r.want("POST", "/api/tasks/retry", `{"limit":5}`, 400, `~needs at least one of`)
	r.want("POST", "/api/tasks/retry", `{"status":"completed"}`, 400, `~status: must be failed_permanent or cancelled`)
	r.want("POST", "/api/tasks/retry", `{"type":"tts","limit":2000}`, 400, `~limit: must be 1..1000`)
	r.want("POST", "/api/tasks/retry", `{"type":"tts","dry_run":true,"limit":2}`, 200, `{"dry_run":true,"retried":["t0","t1"]}`)
	r.want("POST", "/api/tasks/retry", `{"type":"tts"}`, 200,
		`{"dry_run":false,"retried":["t0","t1","t2","t3","t4","t5","t6"],"refused":{"t7":"the task's state does not allow this"}}`)
	r.want("POST", "/api/tasks/retry", `{"type":"nothing"}`, 200, `{"dry_run":false,"retried":[]}`)
	if s := r.queue.tasks["u"].Status; s != queue.StatusFailedPermanent {
		t.Errorf("a task outside the filter is %s", s)
	}
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.queue.workers["vm1"] = &queue.WorkerRecord{ID: "vm1", Registered: true, Alive: true, HeartbeatTTL: 40 * time.Second,
		RegisteredAt: time.Unix(1773626400, 0), Heartbeat: json.RawMessage(`{"load":1,"reason":"memory is at 97 %"}`), Capabilities: []string{"tts"}}
	r.queue.workers["vm2"] = &queue.WorkerRecord{ID: "vm2", Registered: true, Alive: true, Heartbeat: json.RawMessage("\xff{")}
	r.queue.workers["vm3"] = &queue.WorkerRecord{ID: "vm3", Registered: true}
	r.want("GET", "/api/workers/vm1", "", 200, `{"id":"vm1","registered":true,"cordoned":false,"capabilities":["tts"],"max_concurrent":0,"alive":true,`+
		`"heartbeat":{"load":1,"reason":"memory is at 97 %"},"tasks":0,"state":"alive","reason":"memory is at 97 %","heartbeat_ttl_seconds":40,"registered_at":"2026-03-16T02:00:00.000000+00:00"}`)
	r.want("POST", "/api/workers/vm2/drain", "", 200, `{"worker_id":"vm2","cordoned":true}`)
	r.want("GET", "/api/workers/vm2", "", 200, `~"heartbeat":"�{","tasks":0,"state":"draining"`)
	r.want("POST", "/api/workers/vm2/resume", "", 200, `{"worker_id":"vm2","cordoned":false}`)
	r.want("GET", "/api/workers/vm3", "", 200, `~"state":"dead"`)
	r.want("GET", "/api/workers/vm9", "", 404, `{"detail":"no such worker: vm9"}`)
	r.want("POST", "/api/workers/vm9/drain", "", 404, `{"detail":"no such worker: vm9"}`)
	r.want("POST", "/api/workers/vm9/resume", "", 200, `{"worker_id":"vm9","cordoned":false}`)
	r.want("POST", "/api/workers/a:b/resume", "", 400, `~worker:`)
	_, body := r.do("GET", "/api/workers", "")
	var list apiwire.WorkerList
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Workers) != 3 || list.Workers[0].RegisteredAt.Unix() != 1773626400 {
		t.Errorf("%v %s", err, body)
	}
}

type fakeMonitor struct{ err error }

func (m fakeMonitor) Scan(context.Context) (apiwire.ScanReply, error) {
	return apiwire.ScanReply{Leader: true, Workers: 2, Took: 0.5}, m.err
}

type fakeRedis struct{}

func (fakeRedis) Health() redisconn.Health { return redisconn.Health{} }
func (fakeRedis) Info(_ context.Context, database string) redisconn.Info {
	return redisconn.Info{Database: database}
}

type fakeArtifacts struct{}

type storeError int

func (e storeError) Error() string   { return "RESOURCE_EXHAUSTED: full" }
func (e storeError) HTTPStatus() int { return int(e) }

func (fakeArtifacts) Get(w http.ResponseWriter, _ *http.Request, sha string) error {
	_, err := io.WriteString(w, sha)
	return err
}
func (fakeArtifacts) Put(http.ResponseWriter, *http.Request, string) error { return storeError(507) }

func TestFailoverRedisAndArtifacts(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(d *Deps) { d.Monitor, d.Redis, d.Artifacts = fakeMonitor{}, fakeRedis{}, fakeArtifacts{} })
	r.queue.events = []queue.FailoverEvent{{Event: "worker_failover", WorkerID: "a"}, {Event: "worker_failover", WorkerID: "b"}}
	r.want("GET", "/api/failover/log?count=1", "", 200, `{"events":[{"event":"worker_failover","worker_id":"a","orphaned_tasks":0,"migrated_tasks":0,"failed_tasks":0,"timestamp":0}]}`)
	r.want("GET", "/api/failover/log?count=501", "", 400, `~query.count`)
	r.want("POST", "/api/failover/scan", "", 200, `{"leader":true,"workers":2,"dead":[],"events":[],"took_seconds":0.5}`)
	r.want("GET", "/api/redis/health", "", 200, `~overall_healthy`)
	r.want("GET", "/api/redis/info", "", 200, `~"database":"main"`)
	r.want("GET", "/api/redis/info?database=agents", "", 200, `~"database":"agents"`)
	if res, body := r.do("GET", "/api/artifacts/abc", ""); res.StatusCode != 200 || body != "abc" {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	r.want("PUT", "/api/artifacts/abc", "x", 507, `{"detail":"RESOURCE_EXHAUSTED: full"}`)

	bare := newRig(t)
	for _, path := range []string{"/api/redis/health", "/api/redis/info", "/api/artifacts/abc"} {
		bare.want("GET", path, "", 503, `~is not available on this control plane`)
	}
	bare.want("POST", "/api/failover/scan", "", 503, `~is not available`)
	bare.want("PUT", "/api/artifacts/abc", "", 503, `~is not available`)
	bare.want("GET", "/api/failover/log", "", 200, `{"events":[]}`)
}

func TestHealthAndMetrics(t *testing.T) {
	t.Parallel()
	ready := true
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "test_total", Help: "A test."})
	reg.MustRegister(c)
	r := newRig(t, func(d *Deps) {
		d.Metrics = reg
		d.Ready = func() (bool, string) { return ready, "Redis is away" }
	})
	r.want("GET", "/healthz", "", 200, `{"status":"ok","version":"1.2.3"}`)
	r.want("GET", "/readyz", "", 200, `{"status":"ready","version":"1.2.3"}`)
	ready = false
	r.want("GET", "/readyz", "", 503, `{"status":"not_ready","version":"1.2.3","detail":"Redis is away"}`)
	for _, path := range []string{"/metrics", "/api/metrics/prometheus"} {
		res, body := r.do("GET", path, "", "X", "")
		if res.StatusCode != 200 || !strings.Contains(body, "# HELP test_total A test.\n# TYPE test_total counter\ntest_total 0") ||
			!strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") {
			t.Errorf("%s: %d %s %v", path, res.StatusCode, body, res.Header)
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		err    error
		status int
		want   string
	}{
		{"the breaker is open", fmt.Errorf("submit: %w", redisconn.ErrCircuitOpen), 503, "try again"},
		{"the connection breaks", io.ErrUnexpectedEOF, 503, "try again"},
		{"an unexpected error", errors.New("secret detail"), 500, "internal error: the log of the control plane has more under request "},
		{"an invalid id", &queue.InvalidError{Field: "id", Rule: "is bad"}, 400, "id: is bad"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.queue.fail(tt.err)
			res, body := r.do("POST", "/api/tasks", `{"type":"a"}`)
			if res.StatusCode != tt.status || !strings.Contains(body, tt.want) || strings.Contains(body, "secret") {
				t.Errorf("%d %s", res.StatusCode, body)
			}
			if (tt.status == 503) != (res.Header.Get("Retry-After") != "") {
				t.Errorf("Retry-After %q", res.Header.Get("Retry-After"))
			}
			id := res.Header.Get("X-Request-ID")
			logged := r.logs.FilterLevelExact(zap.ErrorLevel).FilterField(zap.String("request", id)).Len()
			if (tt.status == 500) != (logged == 1) || tt.status == 500 && !strings.Contains(body, id) {
				t.Errorf("%d error lines with the request's id, body %s", logged, body)
			}
		})
	}
	t.Run("a panic", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.queue.panics = true
		res, body := r.do("POST", "/api/tasks", `{"type":"a"}`, "X-Internal-API-Key", testKey, "X-Request-ID", "mine-1")
		if res.StatusCode != 500 || body != `{"detail":"internal error: the log of the control plane has more under request mine-1"}` {
			t.Errorf("%d %s", res.StatusCode, body)
		}
		if r.logs.FilterMessage("a handler panicked").Len() != 1 {
			t.Error("the panic is not in the log")
		}
	})
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, path := range []string{"/api/tasks", "/nothing", "/healthz"} {
		res, _ := r.do("GET", path, "", "X-Request-ID", "bad id")
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cache-Control": "no-store"} {
			if got := res.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		if id := res.Header.Get("X-Request-ID"); !requestIDPattern.MatchString(id) {
			t.Errorf("request id %q", id)
		}
	}
}

func TestNewNeedsAQueueAndAuthentication(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("New accepted nothing")
		}
	}()
	New(Deps{})
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
