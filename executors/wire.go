package executors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	executorpb "github.com/autobot-fleet/autobot/executors/proto"
	"github.com/autobot-fleet/autobot/internal/rawjson"
)

var (
	namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	typePattern = regexp.MustCompile(`^[a-z0-9_.-]{1,64}$`)
)

// reservedOutput are the names that the agent adds to a result.
var reservedOutput = []string{"artifacts", "meta", "error"}

// Check reports what is wrong with a description: a bad name or type, a type
// twice, no concurrency, not ready without a reason.
func (d Description) Check() error {
	var problems []error
	if !namePattern.MatchString(d.Name) {
		problems = append(problems, fmt.Errorf("name %q must be 1-64 of [a-z0-9_-]", d.Name))
	}
	if d.Concurrency < 1 {
		problems = append(problems, fmt.Errorf("concurrency %d must be at least 1", d.Concurrency))
	}
	if d.Processes < 0 {
		problems = append(problems, fmt.Errorf("processes %d must not be negative", d.Processes))
	}
	if !d.Ready && len(d.Reasons) == 0 {
		problems = append(problems, errors.New("it is not ready and gives no reason"))
	}
	if d.Ready && len(d.Types) == 0 {
		problems = append(problems, errors.New("it is ready and serves no type"))
	}
	var seen []string
	for _, t := range d.Types {
		if !typePattern.MatchString(t.Type) {
			problems = append(problems, fmt.Errorf("type %q must be 1-64 of [a-z0-9_.-]", t.Type))
		}
		if slices.Contains(seen, t.Type) {
			problems = append(problems, fmt.Errorf("type %q is there twice", t.Type))
		}
		seen = append(seen, t.Type)
		if len(t.Schema) > 0 && !json.Valid(t.Schema) {
			problems = append(problems, fmt.Errorf("schema of type %q is not JSON", t.Type))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("description of executor %q: %w", d.Name, err)
	}
	return nil
}

// TypeNames lists the types of a description in its order.
func (d Description) TypeNames() []string {
	names := make([]string, len(d.Types))
	for i, t := range d.Types {
		names[i] = t.Type
	}
	return names
}

// Type returns the description of one type.
func (d Description) Type(name string) (TypeDescription, bool) {
	for _, t := range d.Types {
		if t.Type == name {
			return t, true
		}
	}
	return TypeDescription{}, false
}

func describeToWire(d Description) *executorpb.DescribeReply {
	reply := &executorpb.DescribeReply{
		Name: validUTF8(d.Name), Version: validUTF8(d.Version),
		Engine: validUTF8(d.Engine), EngineVersion: validUTF8(d.EngineVersion),
		Concurrency: int32(min(d.Concurrency, 1<<20)), // #nosec G115 -- bounded
		Processes:   int32(min(d.Processes, 1<<10)),   // #nosec G115 -- bounded
		Ready:       d.Ready,
	}
	for _, c := range d.Capabilities {
		reply.Capabilities = append(reply.Capabilities, cutBytes(c, maxErrorText))
	}
	for _, r := range d.Reasons {
		reply.Reasons = append(reply.Reasons, cutBytes(r, maxErrorText))
	}
	for _, t := range d.Types {
		w := &executorpb.TaskType{
			Type: validUTF8(t.Type), Schema: t.Schema,
			DefaultTimeoutMs: t.DefaultTimeout.Milliseconds(), MaxTimeoutMs: t.MaxTimeout.Milliseconds(), Inputs: t.Inputs,
			MakesSpoolDir: t.MakesSpoolDir,
		}
		for _, op := range t.Ops {
			w.Ops = append(w.Ops, validUTF8(op))
		}
		reply.Types = append(reply.Types, w)
	}
	return reply
}

func describeFromWire(r *executorpb.DescribeReply) Description {
	d := Description{
		Name: r.GetName(), Version: r.GetVersion(), Engine: r.GetEngine(), EngineVersion: r.GetEngineVersion(),
		Concurrency: int(r.GetConcurrency()), Processes: int(r.GetProcesses()),
		Capabilities: r.GetCapabilities(), Ready: r.GetReady(), Reasons: r.GetReasons(),
	}
	for _, t := range r.GetTypes() {
		d.Types = append(d.Types, TypeDescription{
			Type: t.GetType(), Ops: t.GetOps(), Schema: t.GetSchema(),
			DefaultTimeout: millis(t.GetDefaultTimeoutMs()), MaxTimeout: millis(t.GetMaxTimeoutMs()), Inputs: t.GetInputs(),
			MakesSpoolDir: t.GetMakesSpoolDir(),
		})
	}
	return d
}

// millis turns milliseconds from the other side into a duration that cannot
// overflow or be negative.
func millis(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), int64(1<<62)/int64(time.Millisecond))) * time.Millisecond
}

// micros is millis for microseconds.
func micros(us int64) time.Duration {
	return time.Duration(min(max(us, 0), int64(1<<62)/int64(time.Microsecond))) * time.Microsecond
}

func taskToWire(t Task) *executorpb.Start {
	start := &executorpb.Start{
		TaskId: t.ID, Attempt: t.Attempt, Type: t.Type, Payload: t.Payload,
		SpoolDir: t.SpoolDir, Secrets: t.Secrets, Inputs: t.Inputs, Trace: validUTF8(t.Trace),
	}
	if !t.Deadline.IsZero() {
		start.DeadlineUnixMs = t.Deadline.UnixMilli()
	}
	return start
}

func taskFromWire(s *executorpb.Start) Task {
	t := Task{
		ID: s.GetTaskId(), Attempt: s.GetAttempt(), Type: s.GetType(), Payload: s.GetPayload(),
		SpoolDir: s.GetSpoolDir(), Secrets: s.GetSecrets(), Inputs: s.GetInputs(), Trace: s.GetTrace(),
	}
	if ms := s.GetDeadlineUnixMs(); ms > 0 {
		t.Deadline = time.UnixMilli(ms)
	}
	return t
}

// checkPayload is done on both sides. It returns the payload to use: an empty
// one is an empty object.
func checkPayload(p json.RawMessage) (json.RawMessage, *Error) {
	if len(p) > MaxPayload {
		e := Errorf(CodeTooLarge, "payload has %d bytes, the limit is %d", len(p), MaxPayload)
		e.Hint = "pass large input as an artifact reference"
		return nil, e
	}
	trimmed := bytes.TrimLeft(p, " \t\r\n")
	if len(trimmed) == 0 {
		return json.RawMessage("{}"), nil
	}
	if trimmed[0] != '{' {
		return nil, Invalid("payload", "must be a JSON object, got %s", given(trimmed))
	}
	if !rawjson.Valid(p) {
		return nil, Invalid("payload", "is not valid JSON: %s", syntaxProblem(p))
	}
	return p, nil
}

// syntaxProblem says where JSON is broken.
func syntaxProblem(p []byte) string {
	var v any
	err := json.Unmarshal(p, &v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Sprintf("%s at byte %d", strings.TrimPrefix(syntax.Error(), "json: "), syntax.Offset)
	}
	return fmt.Sprint(err)
}

// checkOutput is done on both sides: output is a JSON object without reserved
// names and small enough to be carried.
func checkOutput(out json.RawMessage) (json.RawMessage, *Error) {
	if len(bytes.TrimSpace(out)) == 0 {
		return json.RawMessage("{}"), nil
	}
	if len(out) > MaxOutput {
		e := Errorf(CodeTooLarge, "the executor's output has %d bytes, the limit is %d", len(out), MaxOutput)
		e.Hint = "large output belongs into an artifact"
		return nil, e
	}
	out = validJSONText(out)
	var reserved string
	if !rawjson.Members(out, func(name string, _ json.RawMessage) bool {
		if slices.Contains(reservedOutput, name) {
			reserved = name
		}
		return true
	}) {
		return nil, Errorf(CodeEngineError, "the executor's output is not a JSON object: %s", given(out))
	}
	if reserved != "" {
		return nil, Errorf(CodeEngineError, "the executor's output uses the reserved name %q", reserved)
	}
	return out, nil
}

func outcomeToWire(r Result, e *Error) *executorpb.Outcome {
	out := &executorpb.Outcome{Op: cutRunes(r.Op, maxWord), Output: r.Output, LoadUs: r.Load.Microseconds()}
	for _, w := range r.Warnings {
		out.Warnings = append(out.Warnings, &executorpb.Warning{
			Code: cutRunes(w.Code, maxWord), Message: cutBytes(w.Message, 1<<10),
		})
		if len(out.Warnings) == 100 {
			break
		}
	}
	if e != nil {
		out.Output = e.Output
		out.Failure = &executorpb.Failure{
			Code: cutRunes(string(e.Code), maxWord), Message: cutBytes(e.Message, maxErrorText),
			Retryable: e.Retryable, Field: cutBytes(e.Field, 1<<10), Hint: cutBytes(e.Hint, maxErrorText),
			Detail: cutBytes(e.Detail, maxErrorText), DelayMs: e.Delay.Milliseconds(),
		}
	}
	return out
}

func outcomeFromWire(o *executorpb.Outcome) Outcome {
	r := Result{Op: o.GetOp(), Load: micros(o.GetLoadUs())}
	for _, w := range o.GetWarnings() {
		r.Warnings = append(r.Warnings, Warning{Code: w.GetCode(), Message: w.GetMessage()})
	}
	if f := o.GetFailure(); f != nil {
		e := &Error{
			Code: Code(f.GetCode()), Message: f.GetMessage(), Retryable: f.GetRetryable(),
			Field: f.GetField(), Hint: f.GetHint(), Detail: f.GetDetail(), Delay: millis(f.GetDelayMs()),
		}
		if len(o.GetOutput()) > 0 {
			if output, bad := checkOutput(o.GetOutput()); bad == nil {
				e.Output = output
			}
		}
		return Outcome{Result: r, Err: e}
	}
	output, bad := checkOutput(o.GetOutput())
	r.Output = output
	return Outcome{Result: r, Err: bad}
}

func progressToWire(p Progress) *executorpb.Progress {
	return &executorpb.Progress{
		Percent: int32(p.Percent), // #nosec G115 -- bounded by the caller
		Stage:   cutRunes(p.Stage, maxWord), Done: p.Done, Total: p.Total,
		Unit: cutRunes(p.Unit, maxWord), Message: cutRunes(p.Message, MaxProgress),
	}
}

func artifactToWire(a Artifact) *executorpb.Artifact {
	w := &executorpb.Artifact{Name: validUTF8(a.Name), Kind: validUTF8(a.Kind), MediaType: validUTF8(a.MediaType)}
	if len(a.Meta) > 0 {
		w.Meta = make(map[string]string, len(a.Meta))
		for k, v := range a.Meta {
			w.Meta[validUTF8(k)] = validUTF8(v)
		}
	}
	return w
}

// eventFromWire returns nil for a message that is no event.
func eventFromWire(m *executorpb.ExecutorMessage) *Event {
	switch e := m.GetEvent().(type) {
	case *executorpb.ExecutorMessage_Progress:
		p := e.Progress
		return &Event{Progress: &Progress{
			Percent: min(max(int(p.GetPercent()), -1), 100), Stage: p.GetStage(), Done: p.GetDone(),
			Total: p.GetTotal(), Unit: p.GetUnit(), Message: cutRunes(p.GetMessage(), MaxProgress),
		}}
	case *executorpb.ExecutorMessage_Log:
		return &Event{Log: &Log{
			Level: logLevel(e.Log.GetLevel()), Message: e.Log.GetMessage(), Time: time.UnixMilli(e.Log.GetUnixMs()),
		}}
	case *executorpb.ExecutorMessage_Artifact:
		a := e.Artifact
		return &Event{Artifact: &Artifact{Name: a.GetName(), Kind: a.GetKind(), MediaType: a.GetMediaType(), Meta: a.GetMeta()}}
	}
	return nil
}

func logLevel(s string) string {
	switch s {
	case "debug", "info", "warn", "error":
		return s
	}
	return "info"
}
