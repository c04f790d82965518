package executors_test

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/executorstest"
)

func TestBadOutcomesBecomeErrors(t *testing.T) {
	t.Parallel()
	p := executorstest.Start(t, misbehave(t, ""))
	s := p.Attach(t)
	for _, tt := range []struct {
		op   string
		code executors.Code
		want string
	}{
		{"panic", executors.CodeEngineError, "index out of range [3]"},
		{"nil error", executors.CodeEngineError, "nil"},
		{"reserved name", executors.CodeEngineError, `"meta"`},
		{"no object", executors.CodeEngineError, "not a JSON object: [1, 2]"},
		{"too large", executors.CodeTooLarge, "limit"},
	} {
		t.Run(tt.op, func(t *testing.T) {
			r := p.Do(t, s, tt.op, op(tt.op))
			if r.Err == nil || r.Err.Code != tt.code || !strings.Contains(r.Err.Message, tt.want) {
				t.Errorf("outcome = %+v, want %s that says %s", r.Err, tt.code, tt.want)
			}
			if strings.Contains(r.Err.Error()+r.Err.Detail, "goroutine") {
				t.Errorf("users get a stack: %v", r.Err)
			}
		})
	}
	r := p.Do(t, s, "large", op("large"))
	if r.Err != nil || len(r.Result.Output) < executors.MaxResult {
		t.Errorf("output up to MaxOutput must come through, got %d bytes and %v", len(r.Result.Output), r.Err)
	}
}

func TestPrintsAreHarmlessAndFound(t *testing.T) {
	t.Parallel()
	p := executorstest.Start(t, misbehave(t, ""))
	s := p.Attach(t)
	if r := p.Do(t, s, "t", op("print")); r.Err != nil || string(r.Result.Output) != `{"printed": true}` {
		t.Fatalf("outcome = %s, %v", r.Result.Output, r.Err)
	}
	executorstest.Await(t, "the prints to arrive", func() bool { return strings.Contains(p.Printed(), "end of noise") })
	for _, want := range []string{"printed with fmt\n", "printed to os.Stdout\n", "printed by a child\n", "bytes cut]\n"} {
		if !strings.Contains(p.Printed(), want) {
			t.Errorf("%q is not in what it printed", want)
		}
	}
}

func TestBrokenTextIsRepaired(t *testing.T) {
	t.Parallel()
	p := executorstest.Start(t, misbehave(t, ""))
	r := p.Do(t, p.Attach(t), "t", op("bad text"))
	if r.Err == nil || r.Err.Message != "message gr��" && r.Err.Message != "message gr�" {
		t.Fatalf("error = %+v", r.Err)
	}
	if len(r.Err.Detail) > 4<<10 || !utf8.ValidString(r.Err.Detail) || !strings.Contains(r.Err.Detail, "bytes cut") {
		t.Errorf("detail of %d bytes: %.60q", len(r.Err.Detail), r.Err.Detail)
	}
	if !utf8.Valid(r.Err.Output) || !strings.Contains(string(r.Err.Output), "partial") {
		t.Errorf("partial output = %q", r.Err.Output)
	}
	high := -1
	for _, e := range r.Events {
		if p := e.Progress; p != nil {
			if p.Percent < high || p.Percent > 100 || utf8.RuneCountInString(p.Message) > executors.MaxProgress {
				t.Errorf("progress = %+v after %d", p, high)
			}
			high = p.Percent
		}
	}
	if len(r.Artifacts()) != 1 || r.Logs() == "" {
		t.Errorf("events are missing: %+v", r.Events)
	}
}

func TestErrorOfAnInterruptedTaskTellsWhatEndedIt(t *testing.T) {
	t.Parallel()
	p := executorstest.Start(t, misbehave(t, ""))
	r := p.Begin(t, p.Attach(t), "t", op("wait"), time.Now().Add(time.Second)).Wait(t)
	if r.Err == nil || r.Err.Code != executors.CodeDeadlineExceeded || r.Err.Detail != "interrupted" ||
		!strings.Contains(r.Err.Message, "stage wait at 40 %") {
		t.Errorf("error = %+v, want DEADLINE_EXCEEDED with the stage, and the executor's error as detail", r.Err)
	}
}

func TestTimeoutOfThePayloadIsKept(t *testing.T) {
	t.Parallel()
	p := executorstest.Start(t, misbehave(t, ""))
	c := executorstest.Case{Type: "misbehave", Payload: `{"op": "wait", "timeout_ms": 200}`}
	r := p.Begin(t, p.Attach(t), "t", c, time.Now().Add(time.Hour)).Wait(t)
	if r.Err == nil || r.Err.Code != executors.CodeDeadlineExceeded || !strings.Contains(r.Err.Message, "200ms") {
		t.Errorf("error = %+v, want DEADLINE_EXCEEDED after 200ms", r.Err)
	}
}

func TestCrashEndsAllTasksWithoutOutcome(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ op, want string }{
		{"panic elsewhere", "nobody recovers this"},
		{"exit", "exit code 7"},
	} {
		t.Run(tt.op, func(t *testing.T) {
			t.Parallel()
			p := executorstest.Start(t, misbehave(t, ""))
			s := p.Attach(t)
			neighbour := p.Begin(t, s, "neighbour", op("wait"), time.Time{})
			culprit := p.Begin(t, s, "culprit", op(tt.op), time.Time{})
			for _, r := range []*executorstest.Running{neighbour, culprit} {
				if report, ok := r.End(t); ok {
					t.Errorf("task %s has the outcome %+v", r.Task.ID, report.Outcome)
				}
			}
			if exit := p.Exit(); !strings.Contains(exit.String(), tt.want) || exit.Killed {
				t.Errorf("exit = %q, want one that says %q", exit, tt.want)
			}
			<-s.Done()
			if s.Err() == nil {
				t.Error("the session ended without an error")
			}
			if _, err := s.Start(neighbour.Task, nil); err == nil {
				t.Error("a task can be started in an ended session")
			}
		})
	}
}

func TestShutdownKillsWhoIgnoresIt(t *testing.T) {
	t.Parallel()
	p := executorstest.Start(t, misbehave(t, ""))
	s := p.Attach(t)
	stubborn := p.Begin(t, s, "t", op("ignore"), time.Time{})
	executorstest.Await(t, "the task to run", func() bool {
		h, err := p.Health(context.Background())
		return err == nil && h.InFlight == 1
	})
	err := p.Shutdown(context.Background(), 200*time.Millisecond)
	<-p.Exited()
	if _, ok := stubborn.End(t); ok {
		t.Error("the stubborn task has an outcome")
	}
	if err != nil && !strings.Contains(err.Error(), "killed") {
		t.Errorf("error = %v", err)
	}
}

func TestOneStreamAtATime(t *testing.T) {
	t.Parallel()
	p := executorstest.Start(t, misbehave(t, ""))
	first := p.Attach(t)
	if r := p.Do(t, first, "t", op("nothing")); r.Err != nil {
		t.Fatal(r.Err)
	}
	second, err := p.Process.Attach(context.Background())
	if err == nil {
		<-second.Done()
		err = second.Err()
		second.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second stream ended with %v", err)
	}
	long := p.Begin(t, first, "long", op("wait"), time.Time{})
	first.Close()
	if _, ok := long.End(t); ok {
		t.Error("a closed session delivered an outcome")
	}
	executorstest.Await(t, "a new stream to be accepted", func() bool {
		s, err := p.Process.Attach(context.Background())
		if err != nil {
			return false
		}
		defer s.Close()
		outcome, err := s.Start(executors.Task{ID: "again", Attempt: 1, Type: "misbehave"}, nil)
		if err != nil {
			return false
		}
		o, ok := <-outcome
		return ok && o.Err == nil
	})
}

func TestHostRefusesWhatTheExecutorWould(t *testing.T) {
	t.Parallel()
	p := executorstest.Start(t, misbehave(t, ""))
	s := p.Attach(t)
	for _, tt := range []struct {
		name    string
		payload string
		code    executors.Code
	}{
		{"a list", `[1]`, executors.CodeInvalidInput},
		{"broken JSON", `{"a": `, executors.CodeInvalidInput},
		{"too much", `{"a": "` + strings.Repeat("x", executors.MaxPayload) + `"}`, executors.CodeTooLarge},
	} {
		_, err := s.Start(executors.Task{ID: tt.name, Attempt: 1, Type: "misbehave", Payload: []byte(tt.payload)}, nil)
		if !executors.IsCode(err, tt.code) {
			t.Errorf("%s: error = %v, want %s", tt.name, err, tt.code)
		}
	}
	if s.InFlight() != 0 {
		t.Errorf("%d tasks are in flight", s.InFlight())
	}
}
