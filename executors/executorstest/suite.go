package executorstest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

// cancelLimit is how soon after a cancel or a deadline an executor has to
// return by the contract: five seconds, and some for a busy machine.
const cancelLimit = 15 * time.Second

// Run takes the binary through the contract, each part as a parallel subtest
// with a process of its own.
func Run(t *testing.T, b Binary) {
	t.Helper()
	if os.Getenv(envActAsParent) != "" {
		actAsParent(b)
	}
	if b.Long.Type == "" || len(b.Tasks) == 0 {
		t.Fatal("executorstest: a Binary needs Tasks and a Long case")
	}
	for _, part := range []struct {
		name string
		run  func(*testing.T, Binary)
	}{
		{"describes itself and is healthy", describes},
		{"says what it is when started by hand", byHand},
		{"runs its tasks", runsTasks},
		{"refuses what it does not know", refuses},
		{"ends a task soon after its cancel", cancels},
		{"ends a task at its deadline", meetsDeadline},
		{"is not harmed by noise on standard output", survivesNoise},
		{"ignores signals while it is not drained", ignoresSignals},
		{"refuses tasks over its concurrency", limitsConcurrency},
		{"drains", drains},
		{"shuts down with the outcomes delivered", shutsDown},
		{"leaves nothing when it is killed", killed},
		{"leaves nothing when its parent is killed", orphaned},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.run(t, b)
		})
	}
}

func describe(t testing.TB, p *Process) executors.Description {
	t.Helper()
	d, err := p.Describe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if !d.Ready {
		t.Fatalf("it is not ready: %v", d.Reasons)
	}
	return d
}

func describes(t *testing.T, b Binary) {
	p := Start(t, b)
	d := describe(t, p)
	if d.Version == "" {
		t.Error("it has no version")
	}
	if _, ok := d.Type(b.Long.Type); !ok {
		t.Errorf("it does not describe type %s, only %v", b.Long.Type, d.TypeNames())
	}
	h, err := p.Health(context.Background())
	if err != nil || !h.Ready || h.InFlight != 0 {
		t.Errorf("health = %+v, %v; want ready with nothing in flight", h, err)
	}
}

func byHand(t *testing.T, b Binary) {
	run := func(arg ...string) (string, int) {
		cmd := exec.Command(b.Path, arg...) // #nosec G204 -- the binary under test
		cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin"}, b.Env...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := run(); code == 0 || strings.Count(out, "\n") != 1 || !strings.Contains(out, "autobot-agent") {
		t.Errorf("by hand it printed %q with code %d; want one line that names autobot-agent, and a failure", out, code)
	}
	out, code := run("--describe")
	if !json.Valid([]byte(out)) || code != 0 {
		t.Errorf("--describe printed %q with code %d; want JSON", out, code)
	}
	if out, code := run("--version"); code != 0 || len(strings.Fields(out)) != 2 {
		t.Errorf("--version printed %q with code %d; want name and version", out, code)
	}
}

func runsTasks(t *testing.T, b Binary) {
	p := Start(t, b)
	s := p.Attach(t)
	for i, c := range b.Tasks {
		name := c.Name
		if name == "" {
			name = c.Type
		}
		t.Run(name, func(t *testing.T) {
			r := p.Do(t, s, fmt.Sprintf("task-%d", i), c)
			switch {
			case c.Code == "" && r.Err != nil:
				t.Fatalf("it failed: %v (detail %q)\n%s", r.Err, r.Err.Detail, r.Logs())
			case c.Code != "" && (r.Err == nil || r.Err.Code != c.Code):
				t.Fatalf("outcome = %v, want code %s", r.Err, c.Code)
			}
			if c.Check != nil {
				c.Check(t, r)
			}
		})
	}
}

func refuses(t *testing.T, b Binary) {
	p := Start(t, b)
	s := p.Attach(t)
	d := describe(t, p)
	good := b.Tasks[0]
	expect := func(name string, c Case, code executors.Code, parts ...string) {
		t.Helper()
		r := p.Do(t, s, name, c)
		if r.Err == nil || r.Err.Code != code || r.Err.Retryable {
			t.Errorf("%s: outcome = %+v, want a final %s", name, r.Err, code)
			return
		}
		for _, part := range parts {
			if !strings.Contains(r.Err.Message, part) {
				t.Errorf("%s: message %q does not name %q", name, r.Err.Message, part)
			}
		}
	}
	expect("type", Case{Type: "no.such-type", Payload: `{}`}, executors.CodeUnsupported, d.Types[0].Type)
	if typ, _ := d.Type(good.Type); len(typ.Ops) > 0 {
		expect("op", Case{Type: good.Type, Payload: `{"op": "no_such_op"}`}, executors.CodeUnsupported, typ.Ops[0])
		expect("op-type", Case{Type: good.Type, Payload: `{"op": 5}`}, executors.CodeInvalidInput, "op")
	}
	if !b.AnyPayload {
		expect("field", Case{Type: good.Type, Payload: with(t, good.Payload, "no_such_field", 1)}, executors.CodeInvalidInput, "no_such_field")
		expect("timeout", Case{Type: good.Type, Payload: with(t, good.Payload, "timeout_ms", 1)}, executors.CodeInvalidInput, "timeout_ms")
	}
	extra := Case{Type: good.Type, Payload: with(t, good.Payload, "x_note", "free")}
	if r := p.Do(t, s, "x", extra); good.Code == "" && r.Err != nil {
		t.Errorf("a field with the prefix x_ was refused: %v", r.Err)
	}
}

// with adds a field to a JSON object.
func with(t testing.TB, payload, key string, value any) string {
	t.Helper()
	m := map[string]any{}
	if err := json.Unmarshal([]byte(payload), &m); err != nil {
		t.Fatal(err)
	}
	m[key] = value
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// beginLong starts the long task and waits until the executor works on it.
func beginLong(t testing.TB, p *Process, s *executors.Session, b Binary, id string) *Running {
	t.Helper()
	before := inFlight(t, p)
	r := p.Begin(t, s, id, b.Long, time.Time{})
	Await(t, "the long task to run", func() bool {
		if r.ended() {
			t.Fatalf("the long task ended at once: %v", r.Wait(t).Err)
		}
		return inFlight(t, p) > before
	})
	return r
}

func inFlight(t testing.TB, p *Process) int {
	t.Helper()
	h, err := p.Health(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return h.InFlight
}

func cancels(t *testing.T, b Binary) {
	p := Start(t, b)
	s := p.Attach(t)
	r := beginLong(t, p, s, b, "long")
	start := time.Now()
	if err := s.Cancel("long", 1); err != nil {
		t.Fatal(err)
	}
	if got := r.Wait(t); got.Err == nil || got.Err.Code != executors.CodeCancelled || got.Err.Retryable {
		t.Errorf("outcome = %+v, want a final CANCELLED", got.Err)
	}
	if took := time.Since(start); took > cancelLimit {
		t.Errorf("it took %s to end after the cancel", took)
	}
	if err := s.Cancel("nobody", 1); err != nil {
		t.Errorf("cancel of an unknown task: %v", err)
	}
	works(t, p, s, b)
}

// works checks that the process still serves.
func works(t *testing.T, p *Process, s *executors.Session, b Binary) {
	t.Helper()
	if r := p.Do(t, s, "after", b.Tasks[0]); (r.Err == nil) != (b.Tasks[0].Code == "") {
		t.Errorf("the next task ended with %v", r.Err)
	}
}

func meetsDeadline(t *testing.T, b Binary) {
	p := Start(t, b)
	s := p.Attach(t)
	start := time.Now()
	r := p.Begin(t, s, "late", b.Long, start.Add(700*time.Millisecond)).Wait(t)
	if r.Err == nil || r.Err.Code != executors.CodeDeadlineExceeded || !r.Err.Retryable {
		t.Errorf("outcome = %+v, want a retryable DEADLINE_EXCEEDED", r.Err)
	}
	if took := time.Since(start); took > cancelLimit {
		t.Errorf("it took %s to end after the deadline", took)
	}
	works(t, p, s, b)
}

// survivesNoise writes to the process's own file descriptor 1, as a library or
// a child does that knows nothing of the handshake: garbage, and a line that is
// far longer than any buffer.
func survivesNoise(t *testing.T, b Binary) {
	p := Start(t, b)
	s := p.Attach(t)
	long := beginLong(t, p, s, b, "long")
	out, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", p.PID()), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		_, err := out.WriteString("1|1|unix|/nowhere|grpc|\n{\"@message\":1}\n\x00\xff\n" + strings.Repeat("x", 1<<20) + "\nlast noise\n")
		written <- err
	}()
	select {
	case err := <-written:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(Patience):
		t.Fatal("a long line on standard output blocks whoever writes it")
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	Await(t, "the noise to appear in the log", func() bool { return strings.Contains(p.Printed(), "last noise") })
	if err := s.Cancel("long", 1); err != nil {
		t.Fatal(err)
	}
	long.Wait(t)
	works(t, p, s, b)
}

func ignoresSignals(t *testing.T, b Binary) {
	p := Start(t, b)
	s := p.Attach(t)
	long := beginLong(t, p, s, b, "long")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if err := syscall.Kill(p.PID(), sig); err != nil {
			t.Fatal(err)
		}
	}
	works(t, p, s, b)
	if err := s.Cancel("long", 1); err != nil {
		t.Fatal(err)
	}
	if r := long.Wait(t); r.Err == nil || r.Err.Code != executors.CodeCancelled {
		t.Errorf("the task that ran during the signals ended with %v", r.Err)
	}
}

func limitsConcurrency(t *testing.T, b Binary) {
	p := Start(t, b)
	s := p.Attach(t)
	limit := describe(t, p).Concurrency
	running := make([]*Running, limit)
	for i := range running {
		running[i] = p.Begin(t, s, fmt.Sprintf("long-%d", i), b.Long, time.Time{})
	}
	Await(t, "all slots to be taken", func() bool { return inFlight(t, p) == limit })
	r := p.Do(t, s, "too-many", b.Long)
	if r.Err == nil || r.Err.Code != executors.CodeResourceExhausted || !r.Err.Retryable || r.Err.Delay <= 0 {
		t.Errorf("outcome over the limit = %+v, want a retryable RESOURCE_EXHAUSTED with a delay", r.Err)
	}
	for _, r := range running {
		if err := s.Cancel(r.Task.ID, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range running {
		if got := r.Wait(t); got.Err == nil || got.Err.Code != executors.CodeCancelled {
			t.Errorf("task %s ended with %v, want CANCELLED", r.Task.ID, got.Err)
		}
	}
	works(t, p, s, b)
}
