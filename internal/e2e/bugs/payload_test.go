package bugs_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/queue"
)

// B49: an executor gets the bytes that were submitted, whatever happens to the
// task in between.
func TestB49PayloadKeepsItsBytes(t *testing.T) {
	t.Parallel()
	seen := e2e.ShortDir(t)
	f := newFleet(t, map[string]string{"bytes": fmt.Sprintf(`n=$(ls %[1]s | wc -l)
cat >%[1]s/part && mv %[1]s/part %[1]s/$n
case $n in 0|1) exit 1;; 2) sleep 600;; esac
echo '{}'`, seen)})
	payload := `{"a":[],"n":130775545883395173,"f":1e-7,"d":9007199254740993,"z":"\u0000","k":{"":1},"s":"\/", "x" :1.0}`
	f.control("")
	a := f.agent("a", "")
	f.q.One(queue.Submission{ID: "t1", Type: "bytes", Payload: json.RawMessage(payload), Delay: 200 * time.Millisecond})
	attempt := func(n int) {
		t.Helper()
		path := filepath.Join(seen, strconv.Itoa(n))
		e2e.Await(t, "attempt "+strconv.Itoa(n+1), func() bool { _, err := os.Stat(path); return err == nil })
		if raw, err := os.ReadFile(path); err != nil || string(raw) != payload {
			t.Errorf("attempt %d saw %q, %v", n+1, raw, err)
		}
	}
	attempt(0) // delayed
	attempt(1) // after a failure
	attempt(2) // and another
	a.Signal(syscall.SIGKILL)
	b := f.agent("b", "")
	attempt(3) // after the death of its worker
	f.q.AwaitStatus("t1", queue.StatusCompleted)
	f.settled(0, "t1")
	if got := f.do("HGET task:t1 payload"); got != payload {
		t.Errorf("Redis has %q", got)
	}
	if code := b.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
}

// peak is the most memory that a process had at once, in MiB.
func peak(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kib int
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib >> 10
		}
	}
	t.Fatal("no peak of memory")
	return 0
}

// B53: payloads and outputs beyond the limits are refused or cut, and nobody
// keeps them in memory.
func TestB53HugePayloadsAndOutputs(t *testing.T) {
	t.Parallel()
	f := newFleet(t, map[string]string{
		"loud":    fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x >&2; echo '{}'`, sized(100<<20, 600<<20)),
		"huge":    fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x`, sized(100<<20, 600<<20)),
		"endless": `exec yes`,
	})
	c := f.control("")
	a := f.agent("a", "heartbeat_timeout: 30s")
	none := 0
	for _, typ := range []string{"loud", "huge", "endless"} {
		f.q.One(queue.Submission{ID: typ, Type: typ, Payload: json.RawMessage(`{}`), MaxRetries: &none, Timeout: sized(20*time.Second, time.Minute)})
	}
	f.tooLarge(c)
	f.push(jobs, "large", "payload", `{"x":"`+strings.Repeat("x", 8<<20)+`"}`)
	f.q.AwaitStatus("large", queue.StatusFailedPermanent)
	if x := f.q.Task("large"); x.ErrorCode != "TOO_LARGE" {
		t.Errorf("a payload of 8 MiB: %s %q", x.ErrorCode, x.LastError)
	}
	f.q.AwaitStatus("loud", queue.StatusCompleted)
	for _, id := range []string{"huge", "endless"} {
		f.q.AwaitStatus(id, queue.StatusFailedPermanent)
		t.Logf("%s: %s %.120q", id, f.q.Task(id).ErrorCode, f.q.Task(id).LastError)
	}
	s, _ := a.Status()
	for _, e := range s.Executors {
		for _, pid := range e.PIDs {
			if m := peak(t, pid); m > 128 {
				t.Errorf("the executor %s had up to %d MiB", e.Name, m)
			}
		}
	}
	if m := peak(t, a.PID()); m > 128 {
		t.Errorf("the agent had up to %d MiB", m)
	}

	// A listing does not read payloads.
	n := sized(60, 1000)
	payload := json.RawMessage(`{"x":"` + strings.Repeat("x", 1<<20-100) + `"}`)
	for i := range n {
		f.q.One(queue.Submission{ID: fmt.Sprint("wait", i), Type: "nobody", Payload: payload})
	}
	sent := func() (bytes int) {
		for line := range strings.Lines(f.q.Redis.Info(t.Context(), "stats").Val()) {
			if _, err := fmt.Sscanf(line, "total_net_output_bytes:%d", &bytes); err == nil {
				return bytes
			}
		}
		return 0
	}
	before := sent()
	_, list := c.Call("GET", "/api/tasks?status=queued&limit=100", "")
	if read := sent() - before; len(list) > 200<<10 || read > 2<<20 {
		t.Errorf("a list of %d tasks of 1 MiB is %d bytes, Redis sent %d", n, len(list), read)
	}
	f.blamed()
	f.settled(0, "loud", "huge", "endless", "large")
}

// tooLarge submits 64 MiB. The control plane answers, or hangs up because the
// rest is of no interest; in neither case does it keep them.
func (f *fleet) tooLarge(c *e2e.RunningControl) {
	f.Helper()
	key, err := os.ReadFile(c.KeyPath)
	if err != nil {
		f.Fatal(err)
	}
	body := append(append([]byte(`{"type":"ledger","payload":{"x":"`), bytes.Repeat([]byte("x"), 64<<20)...), `"}}`...)
	req, err := http.NewRequestWithContext(f.Context(), http.MethodPost, c.URL+"/api/tasks", bytes.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	req.Header.Set("X-Internal-API-Key", strings.TrimSpace(string(key)))
	req.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err == nil {
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			f.Errorf("a payload of 64 MiB: %s", resp.Status)
		}
		_ = resp.Body.Close()
	}
	if m := peak(f.T, c.PID()); m > 128 {
		f.Errorf("the control plane had up to %d MiB", m)
	}
}

// B54: ids and names that look like our keys break nothing.
func TestB54IDsWithSeparators(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	c := f.control(quickReaper)
	f.agent("a", "max_concurrent: 1")
	for _, body := range []string{
		`{"id":"a:result","type":"ledger"}`, `{"id":"x:y:z","type":"ledger"}`, `{"type":"ledger","queue":"a:processing"}`,
		`{"type":"ledger","queue":"processing"}`, `{"type":"ledger","worker":"w:tasks"}`, `{"type":"a:b"}`,
	} {
		if code, answer := c.Call("POST", "/api/tasks", body); code/100 != 4 || !bytes.Contains(answer, []byte("detail")) {
			t.Errorf("%s: %d %s", body, code, answer)
		}
	}
	// What foreign programs put in Redis runs or is put aside, once.
	for _, id := range []string{"t1:result", "a:result", "x:y:z", "t1"} {
		f.push(jobs, id)
	}
	f.do("SADD workers:registered w:tasks")
	f.do("LPUSH queue:a:processing:processing nothing")
	f.q.AwaitAll([]string{"x:y:z", "t1"}, queue.StatusCompleted)
	if got, err := f.q.Result(t.Context(), "t1"); err != nil || !bytes.Contains(got, []byte(`"attempt":1`)) {
		t.Errorf("result of t1: %s, %v", got, err)
	}
	f.push(jobs, "last")
	f.q.AwaitStatus("last", queue.StatusCompleted)
	if n := f.starts("t1:result") + f.starts("a:result"); n != 0 {
		t.Errorf("%d starts of ids that collide with other keys", n)
	}
	f.do("DEL queue:a:processing:processing")
	f.settled(0, "x:y:z", "t1", "last")
}

// A09: a line without an end does not hold up who writes it.
func TestA09LineWithoutAnEnd(t *testing.T) {
	t.Parallel()
	f := newFleet(t, map[string]string{"line": `head -c 1048576 /dev/zero | tr '\0' x >&2; head -c 200000 /dev/zero | tr '\0' ' '; printf '{"done":true}'`})
	a := f.agent("a", "")
	f.q.One(queue.Submission{ID: "t1", Type: "line", Payload: json.RawMessage(`{}`)})
	f.q.AwaitStatus("t1", queue.StatusCompleted)
	if got, err := f.q.Result(t.Context(), "t1"); err != nil || !bytes.Contains(got, []byte(`"done":true`)) {
		t.Errorf("result %.200s, %v", got, err)
	}
	if out := a.Output(); len(out) > 100<<10 || !strings.Contains(out, "xxx…") && !strings.Contains(out, "[cut]") {
		t.Error("the log does not tell that the line was cut")
	}
	f.settled(0, "t1")
}

// Two agents of one machine have names of their own.
func TestASpareTwoAgentsOnOneMachine(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	one, two := f.agent("", ""), f.agent("", "")
	a, _ := one.Status()
	b, _ := two.Status()
	if a.WorkerID == b.WorkerID || a.WorkerID == "" {
		t.Errorf("both are %q", a.WorkerID)
	}
	ids := f.q.Add(40, task("t", `{"ms":50}`))
	f.q.AwaitAll(ids, queue.StatusCompleted)
	f.settled(0, ids...)
	for _, r := range []*e2e.RunningAgent{one, two} {
		r.AwaitStatus("it goes on", func(s agent.Status) bool { return s.Claiming })
	}
}
