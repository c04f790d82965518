package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/queue"
)

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
	r.want("GET", "/api/tasks/bare/result", "", 500, `{"detail":"task \"bare\": the task ended as failed_permanent: Worker w died; retries exhausted",`+
		`"task_id":"bare","status":"failed_permanent","error":{"code":"","message":"Worker w died; retries exhausted","retryable":false}}`)
	r.want("GET", "/api/tasks/odd/result", "", 400, `~"code":"INVALID_INPUT"`)
	r.want("GET", "/api/tasks/done", "", 200, `~"result_available":true`)
	r.want("GET", "/api/tasks/completed", "", 200, `~"result_available":false`)
	r.want("GET", "/api/tasks/failed", "", 200, `~"failure":{"error":`)
	if bad := r.logs.FilterLevelExact(zap.ErrorLevel).All(); len(bad) > 0 {
		t.Errorf("a task that failed is no fault of the control plane, but it logs %+v", bad)
	}
}

func TestOperators(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, s := range []queue.Status{queue.StatusQueued, queue.StatusRunning, queue.StatusCompleted, queue.StatusFailedPermanent} {
		r.queue.put(queue.Task{ID: string(s), Status: s})
	}
	r.want("POST", "/api/tasks/running/cancel", "", 200, `{"task_id":"running","status":"running"}`)
	if r.queue.lastBy != "an operator" {
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
	r.want("POST", "/api/queues/high:tts/resume", "", 200, `{"queue":"high:tts","paused":false,"note":"it was not paused"}`)
	r.want("POST", "/api/queues/high:tst/pause", "", 200, `~"note":"no task has used this queue yet and no living worker serves it; nearest: high:tts"`)
	for _, bad := range []string{"urgent:tts", "high", "high:", "processing", "a%20b", "a%2Fb", strings.Repeat("x", 200)} {
		for _, what := range []string{"pause", "resume"} {
			r.want("POST", "/api/queues/"+bad+"/"+what, "", 400, `~queue: `)
		}
	}
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
