package executors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	executorpb "github.com/autobot-fleet/autobot/executors/proto"
)

const patience = 60 * time.Second

// funcExecutor serves type t with a function.
type funcExecutor struct {
	desc    Description
	execute func(context.Context, Task) (Result, error)
	asked   atomic.Int32
}

func (e *funcExecutor) Describe(context.Context) (Description, error) {
	e.asked.Add(1)
	return e.desc, nil
}

func (e *funcExecutor) Execute(ctx context.Context, t Task) (Result, error) {
	return e.execute(ctx, t)
}

func newFuncExecutor(execute func(context.Context, Task) (Result, error)) *funcExecutor {
	return &funcExecutor{execute: execute, desc: Description{
		Name: "func", Version: "1", Concurrency: 4, Ready: true, Types: []TypeDescription{{Type: "t"}},
	}}
}

// serveInProcess serves e over a pipe, without the checks of our own host side.
func serveInProcess(t *testing.T, e Executor) (*server, executorpb.ExecutorClient) {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	srv := newServer(e, log.New(io.Discard, "", 0), func() {})
	g := grpc.NewServer(grpc.MaxRecvMsgSize(MaxMessage))
	executorpb.RegisterExecutorServer(g, srv)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = g.Serve(lis)
	}()
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		g.Stop()
		<-served
	})
	return srv, executorpb.NewExecutorClient(conn)
}

func attachRaw(t *testing.T, c executorpb.ExecutorClient) executorpb.Executor_AttachClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	stream, err := c.Attach(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func startRaw(t *testing.T, stream executorpb.Executor_AttachClient, s *executorpb.Start) {
	t.Helper()
	if err := stream.Send(&executorpb.HostMessage{Message: &executorpb.HostMessage_Start{Start: s}}); err != nil {
		t.Fatal(err)
	}
}

func recv(t *testing.T, stream executorpb.Executor_AttachClient) *executorpb.ExecutorMessage {
	t.Helper()
	m, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSlowHostDoesNotHoldUpATask(t *testing.T) {
	t.Parallel()
	const logs, files = 50_000, maxTaskFiles
	returned := make(chan struct{})
	_, client := serveInProcess(t, newFuncExecutor(func(_ context.Context, task Task) (Result, error) {
		defer close(returned)
		for i := range logs {
			task.Log("info", "line %d %s", i, strings.Repeat("x", 200))
			task.Progress(Progress{Percent: 100 * i / logs, Stage: "flood", Done: int64(i)})
			if i < files {
				task.Artifact(Artifact{Name: fmt.Sprintf("f%d", i)})
			}
		}
		task.Progress(Progress{Percent: 100, Stage: "done"})
		return Result{}, nil
	}))
	stream := attachRaw(t, client)
	startRaw(t, stream, &executorpb.Start{TaskId: "a", Attempt: 1, Type: "t"})
	select {
	case <-returned: // although nobody has read a single event
	case <-time.After(patience):
		t.Fatal("a host that does not read blocks Execute")
	}
	var gotLogs, gotFiles, markers int
	var last *executorpb.Progress
	for {
		m := recv(t, stream)
		if m.GetOutcome() != nil {
			break
		}
		switch {
		case strings.Contains(m.GetLog().GetMessage(), "dropped here"):
			markers++
		case m.GetLog() != nil:
			gotLogs++
		case m.GetArtifact() != nil:
			if want := fmt.Sprintf("f%d", gotFiles); m.GetArtifact().GetName() != want {
				t.Fatalf("artifact %s, want %s", m.GetArtifact().GetName(), want)
			}
			gotFiles++
		case m.GetProgress() != nil:
			last = m.GetProgress()
		}
	}
	if gotFiles != files {
		t.Errorf("%d artifacts arrived, want all %d", gotFiles, files)
	}
	if gotLogs >= logs || gotLogs == 0 || markers == 0 {
		t.Errorf("%d of %d log lines arrived with %d markers; want fewer, and markers", gotLogs, logs, markers)
	}
	if last.GetPercent() != 100 || last.GetStage() != "done" {
		t.Errorf("last progress = %v, want the last one", last)
	}
}

func TestServerChecksWhatTheHostSends(t *testing.T) {
	t.Parallel()
	_, client := serveInProcess(t, newFuncExecutor(func(context.Context, Task) (Result, error) { return Result{}, nil }))
	stream := attachRaw(t, client)
	for i, tt := range []struct {
		typ, payload string
		code         Code
	}{
		{"t", `{}`, ""},
		{"t", ``, ""},
		{"t", `[]`, CodeInvalidInput},
		{"t", `{`, CodeInvalidInput},
		{"t", `{"a": "` + strings.Repeat("x", MaxPayload) + `"}`, CodeTooLarge},
		{"u", `{}`, CodeUnsupported},
	} {
		id := fmt.Sprint(i)
		startRaw(t, stream, &executorpb.Start{TaskId: id, Attempt: 3, Type: tt.typ, Payload: []byte(tt.payload)})
		m := recv(t, stream)
		if m.GetTaskId() != id || m.GetAttempt() != 3 || Code(m.GetOutcome().GetFailure().GetCode()) != tt.code {
			t.Errorf("%s %.20s: %v, want code %q", tt.typ, tt.payload, m, tt.code)
		}
	}
}

func TestSameTaskTwiceIsRefused(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	_, client := serveInProcess(t, newFuncExecutor(func(context.Context, Task) (Result, error) {
		<-release
		return Result{}, nil
	}))
	stream := attachRaw(t, client)
	for range 2 {
		startRaw(t, stream, &executorpb.Start{TaskId: "a", Attempt: 1, Type: "t"})
	}
	if m := recv(t, stream); m.GetOutcome().GetFailure().GetCode() != string(CodeResourceExhausted) {
		t.Errorf("outcome of the second = %v", m)
	}
	close(release)
	if m := recv(t, stream); m.GetOutcome() == nil || m.GetOutcome().GetFailure() != nil {
		t.Errorf("outcome of the first = %v", m)
	}
}

func TestBrokenStreamCancelsItsTasks(t *testing.T) {
	t.Parallel()
	started, ended := make(chan struct{}), make(chan error, 1)
	srv, client := serveInProcess(t, newFuncExecutor(func(ctx context.Context, _ Task) (Result, error) {
		close(started)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return Result{}, ctx.Err()
	}))
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := client.Attach(ctx)
	if err != nil {
		t.Fatal(err)
	}
	startRaw(t, stream, &executorpb.Start{TaskId: "a", Attempt: 1, Type: "t"})
	<-started
	cancel()
	<-ended
	if n := srv.awaitIdle(context.Background(), patience); n != 0 {
		t.Errorf("%d tasks run on without a host", n)
	}
}

func TestHostThatClosesItsSideGetsTheOutcomes(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	_, client := serveInProcess(t, newFuncExecutor(func(context.Context, Task) (Result, error) {
		<-release
		return Result{Output: json.RawMessage(`{"a": 1}`)}, nil
	}))
	stream := attachRaw(t, client)
	startRaw(t, stream, &executorpb.Start{TaskId: "a", Attempt: 1, Type: "t"})
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	close(release)
	if m := recv(t, stream); string(m.GetOutcome().GetOutput()) != `{"a": 1}` {
		t.Errorf("outcome = %v", m)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
}

func TestExecutorIsAskedAgainBeforeATaskIsRefused(t *testing.T) {
	t.Parallel()
	e := newFuncExecutor(func(context.Context, Task) (Result, error) { return Result{}, nil })
	ready := e.desc
	e.desc = Description{Name: "func", Version: "1", Concurrency: 1, Reasons: []string{"espeak-ng is not installed"}}
	_, client := serveInProcess(t, e)
	stream := attachRaw(t, client)
	startRaw(t, stream, &executorpb.Start{TaskId: "a", Attempt: 1, Type: "t"})
	if f := recv(t, stream).GetOutcome().GetFailure(); f.GetCode() != string(CodeEngineUnavailable) || !strings.Contains(f.GetMessage(), "espeak-ng") {
		t.Errorf("failure = %v", f)
	}
	e.desc = ready // it was installed; the outcome above ordered this write
	for i := range 3 {
		startRaw(t, stream, &executorpb.Start{TaskId: fmt.Sprint(i), Attempt: 1, Type: "t"})
		if m := recv(t, stream); m.GetOutcome().GetFailure() != nil {
			t.Errorf("outcome = %v", m)
		}
	}
	if n := e.asked.Load(); n != 2 {
		t.Errorf("Describe was called %d times, want 2: once it is ready, it is not asked for every task", n)
	}
}

func TestEventsAfterTheOutcomeAreLost(t *testing.T) {
	t.Parallel()
	box := newOutbox()
	s := box.sender("a", 1)
	s.outcome(Result{}, nil)
	s.event(Event{Log: &Log{Message: "late"}})
	s.outcome(Result{}, Errorf(CodeEngineError, "second"))
	box.close()
	if m := box.next(context.Background()); m.GetOutcome() == nil || m.GetOutcome().GetFailure() != nil {
		t.Errorf("first message = %v", m)
	}
	if m := box.next(context.Background()); m != nil {
		t.Errorf("second message = %v, want none", m)
	}
}

func TestArtifactThatCannotBeCarriedFailsTheTask(t *testing.T) {
	t.Parallel()
	for name, announce := range map[string]func(*sender){
		"too big": func(s *sender) {
			s.event(Event{Artifact: &Artifact{Name: "a", Meta: map[string]string{"k": strings.Repeat("v", MaxEvent)}}})
		},
		"too many": func(s *sender) {
			for range maxTaskFiles + 1 {
				s.event(Event{Artifact: &Artifact{Name: "a"}})
			}
		},
	} {
		box := newOutbox()
		s := box.sender("a", 1)
		announce(s)
		s.outcome(Result{}, nil)
		box.close()
		var last *executorpb.ExecutorMessage
		for m := box.next(context.Background()); m != nil; m = box.next(context.Background()) {
			last = m
		}
		if last.GetOutcome().GetFailure().GetCode() != string(CodeTooLarge) {
			t.Errorf("%s: outcome = %v, want TOO_LARGE", name, last)
		}
	}
}

func TestEffectiveDeadline(t *testing.T) {
	t.Parallel()
	now := time.Now()
	typ := TypeDescription{DefaultTimeout: time.Minute, MaxTimeout: time.Hour}
	for _, tt := range []struct {
		name     string
		deadline time.Duration // 0: none
		payload  string
		typ      TypeDescription
		want     time.Duration
	}{
		{"the type's default", 0, `{}`, typ, time.Minute},
		{"the task's", 2 * time.Minute, `{}`, typ, 2 * time.Minute},
		{"the type's maximum", 5 * time.Hour, `{}`, typ, time.Hour},
		{"the payload's", 2 * time.Minute, `{"timeout_ms": 5000}`, typ, 5 * time.Second},
		{"never later than the task's", 2 * time.Second, `{"timeout_ms": 5000}`, typ, 2 * time.Second},
		{"nor than the maximum", 0, `{"timeout_ms": 999999999}`, typ, time.Hour},
		{"none at all", 0, `{}`, TypeDescription{}, 0},
		{"nonsense is left to the executor", time.Minute, `{"timeout_ms": "soon"}`, typ, time.Minute},
		{"it has passed already", -time.Minute, `{}`, typ, time.Nanosecond},
	} {
		task := Task{Payload: json.RawMessage(tt.payload)}
		if tt.deadline != 0 {
			task.Deadline = now.Add(tt.deadline)
		}
		if _, got := EffectiveDeadline(task, tt.typ, now); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestDescriptionCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Description)
		want   string
	}{
		{"a good one", func(*Description) {}, ""},
		{"bad name", func(d *Description) { d.Name = "A b" }, `name "A b"`},
		{"no concurrency", func(d *Description) { d.Concurrency = 0 }, "concurrency 0"},
		{"not ready without a reason", func(d *Description) { d.Ready = false }, "no reason"},
		{"ready without types", func(d *Description) { d.Types = nil }, "no type"},
		{"bad type", func(d *Description) { d.Types[0].Type = "a:b" }, `type "a:b"`},
		{"type twice", func(d *Description) { d.Types = append(d.Types, d.Types[0]) }, "twice"},
		{"broken schema", func(d *Description) { d.Types[0].Schema = json.RawMessage("{") }, "schema"},
	} {
		d := Description{Name: "a", Concurrency: 1, Ready: true, Types: []TypeDescription{{Type: "t"}}}
		tt.change(&d)
		if err := d.Check(); (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
