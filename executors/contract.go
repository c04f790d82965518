package executors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// Limits on what crosses the process boundary, checked on both sides.
const (
	MaxPayload  = 1 << 20   // bytes of a task's payload
	MaxResult   = 256 << 10 // bytes of a result's output; larger output is offloaded by the agent
	MaxOutput   = 3 << 20   // bytes of output that the agent still offloads to an artifact
	MaxEvent    = 64 << 10  // bytes of any other event
	MaxMessage  = 4 << 20   // gRPC message limit, both ways
	MaxProgress = 200       // runes of a progress message
)

// An Executor runs tasks of some types in a process of its own, so that a
// crash there costs one attempt and never the agent.
type Executor interface {
	// Describe reports the task types served and how many fit at once. It is
	// called at start and again when the agent wants to know whether the
	// executor is ready; it must answer within a second.
	Describe(ctx context.Context) (Description, error)

	// Execute runs task to its end and returns soon after ctx is done.
	// Many calls run at the same time, up to Description.Concurrency.
	// Return an *Error to choose the code; any other error becomes
	// ENGINE_ERROR, which may be retried.
	Execute(ctx context.Context, task Task) (Result, error)
}

// Healther is implemented by executors that can say more about their health
// than that the process answers.
type Healther interface {
	Health(ctx context.Context) Health
}

// Closer is implemented by executors that have something to release before
// the process ends.
type Closer interface {
	Close() error
}

// Description is what an executor says about itself.
type Description struct {
	Name          string
	Version       string
	Engine        string // "" when the executor is its own engine
	EngineVersion string
	Types         []TypeDescription
	Concurrency   int      // tasks at once in one process, >= 1
	Processes     int      // processes the host may run side by side when one is not re-entrant; 0 means 1
	Capabilities  []string // free words, for example "voices:131"
	Ready         bool     // false: no task is sent, and Reasons say why
	Reasons       []string // each names what is missing and how to get it; a ready one may say what it leaves out
}

// TypeDescription describes one task type.
type TypeDescription struct {
	Type           string
	Ops            []string        // the first is the default
	Schema         json.RawMessage // JSON Schema of the payload, optional
	DefaultTimeout time.Duration   // 0: the agent's default
	MaxTimeout     time.Duration   // 0: no limit of its own
	Inputs         bool            // payloads may refer to artifacts, which the agent fetches: see Task.Input

	// MakesSpoolDir says that the executor calls Task.MakeSpoolDir before it
	// leaves a file. Then tasks that leave none cost no folder. Without it the
	// folder is there when Execute is called.
	MakesSpoolDir bool
}

// Health is an executor's own view of its health.
type Health struct {
	Ready    bool
	InFlight int
	Devices  []string
	Message  string
}

// Task is one attempt at one task, as given to Execute.
type Task struct {
	ID       string
	Attempt  int64
	Type     string
	Payload  json.RawMessage // a JSON object of at most MaxPayload bytes
	Deadline time.Time       // also the deadline of the context
	SpoolDir string          // private directory for artifacts, absolute; exists, unless the type says MakesSpoolDir
	Secrets  map[string]string
	Inputs   map[string]string // fetched artifacts: sha256 in hexadecimal to absolute path
	Trace    string

	emit func(Event)
}

// NewTask returns t with its events going to emit, for tests and hosts.
func NewTask(t Task, emit func(Event)) Task {
	t.emit = emit
	return t
}

// Progress reports how far the task is. It never blocks for long; the agent
// thins events out to two a second and always delivers the last one.
func (t Task) Progress(p Progress) { t.send(Event{Progress: &p}) }

// Log adds a line to the task's log.
func (t Task) Log(level, format string, args ...any) {
	t.send(Event{Log: &Log{Level: level, Message: fmt.Sprintf(format, args...), Time: time.Now()}})
}

// Artifact announces a finished file in SpoolDir. The file must not change
// after the call.
func (t Task) Artifact(a Artifact) { t.send(Event{Artifact: &a}) }

// MakeSpoolDir makes SpoolDir if it is not there. An executor whose types say
// MakesSpoolDir calls it before it leaves the first file; in others it does
// nothing.
func (t Task) MakeSpoolDir() error {
	if err := os.MkdirAll(t.SpoolDir, 0o700); err != nil {
		return fmt.Errorf("make the task's folder for artifacts: %w", err)
	}
	return nil
}

func (t Task) send(e Event) {
	if t.emit != nil {
		t.emit(e)
	}
}

// Event is something that happens while a task runs. Exactly one field is set.
type Event struct {
	Progress *Progress
	Log      *Log
	Artifact *Artifact
}

// Progress says how far a task is.
type Progress struct {
	Percent int // 0..100, -1 unknown; never falls
	Stage   string
	Done    int64
	Total   int64
	Unit    string
	Message string // at most MaxProgress runes
}

// Log is one line of a task's log.
type Log struct {
	Level   string // debug, info, warn, error
	Message string
	Time    time.Time
}

// Artifact is a file an executor leaves in the spool directory.
type Artifact struct {
	Name      string // relative, [A-Za-z0-9._-]{1,100}
	Kind      string // audio, image, document, tensor, download
	MediaType string
	Meta      map[string]string
}

// Result is the outcome of a successful task.
type Result struct {
	Op       string          // the operation that ran
	Output   json.RawMessage // a JSON object; the names artifacts, meta and error are reserved
	Warnings []Warning
	Load     time.Duration // part of the run spent on loading
}

// Warning tells the user something about a result that is still good.
type Warning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Code is an error code that users see.
type Code string

// The error codes. The comment after each says whether it may be retried.
const (
	CodeInvalidInput         Code = "INVALID_INPUT"          // no
	CodeUnsupported          Code = "UNSUPPORTED"            // no
	CodeNotFound             Code = "NOT_FOUND"              // no
	CodePermissionDenied     Code = "PERMISSION_DENIED"      // no
	CodeEgressDenied         Code = "EGRESS_DENIED"          // no
	CodeTooLarge             Code = "TOO_LARGE"              // no
	CodeDeadlineExceeded     Code = "DEADLINE_EXCEEDED"      // yes
	CodeCancelled            Code = "CANCELLED"              // no
	CodeEngineUnavailable    Code = "ENGINE_UNAVAILABLE"     // yes, other worker
	CodeDeviceUnavailable    Code = "DEVICE_UNAVAILABLE"     // yes, other worker
	CodeDeviceLost           Code = "DEVICE_LOST"            // yes
	CodeModelLoadFailed      Code = "MODEL_LOAD_FAILED"      // no; set Retryable for I/O faults
	CodeNumericError         Code = "NUMERIC_ERROR"          // yes
	CodeNumericMismatch      Code = "NUMERIC_MISMATCH"       // yes
	CodeNavigationFailed     Code = "NAVIGATION_FAILED"      // by network error
	CodeElementNotFound      Code = "ELEMENT_NOT_FOUND"      // no
	CodeElementAmbiguous     Code = "ELEMENT_AMBIGUOUS"      // no
	CodeScriptError          Code = "SCRIPT_ERROR"           // no
	CodeBrowserCrashed       Code = "BROWSER_CRASHED"        // yes
	CodeSessionLost          Code = "SESSION_LOST"           // no
	CodeEngineError          Code = "ENGINE_ERROR"           // yes
	CodePluginCrashed        Code = "PLUGIN_CRASHED"         // yes
	CodePoison               Code = "POISON"                 // no
	CodeResourceExhausted    Code = "RESOURCE_EXHAUSTED"     // yes, after a delay
	CodeArtifactUploadFailed Code = "ARTIFACT_UPLOAD_FAILED" // yes
)

// Retryable is the default for an error with this code.
func (c Code) Retryable() bool {
	switch c {
	case CodeDeadlineExceeded, CodeEngineUnavailable, CodeDeviceUnavailable, CodeDeviceLost,
		CodeNumericError, CodeNumericMismatch, CodeBrowserCrashed, CodeEngineError,
		CodePluginCrashed, CodeResourceExhausted, CodeArtifactUploadFailed:
		return true
	}
	return false
}

// OtherWorker reports whether a retry should go to another worker.
func (c Code) OtherWorker() bool {
	return c == CodeEngineUnavailable || c == CodeDeviceUnavailable
}

// HTTPStatus is the status an API answers with for the code.
func (c Code) HTTPStatus() int {
	switch c {
	case CodeInvalidInput, CodeUnsupported:
		return 400
	case CodePermissionDenied, CodeEgressDenied:
		return 403
	case CodeNotFound:
		return 404
	case CodeSessionLost:
		return 410
	case CodeTooLarge:
		return 413
	case CodeElementNotFound, CodeElementAmbiguous, CodeScriptError:
		return 422
	case CodeResourceExhausted:
		return 429
	case CodeCancelled:
		return 499
	case CodeNavigationFailed, CodeArtifactUploadFailed:
		return 502
	case CodeEngineUnavailable, CodeDeviceUnavailable, CodeDeviceLost, CodeBrowserCrashed:
		return 503
	case CodeDeadlineExceeded:
		return 504
	}
	return 500
}

// Error is a failure with a code, in the shape that users see.
type Error struct {
	Code      Code            `json:"code"`
	Message   string          `json:"message"`
	Retryable bool            `json:"retryable"`
	Field     string          `json:"field,omitempty"` // JSON path into the payload
	Hint      string          `json:"hint,omitempty"`  // what the user can do
	Detail    string          `json:"detail,omitempty"`
	Output    json.RawMessage `json:"-"` // as much of the output as there is
	Delay     time.Duration   `json:"-"` // earliest retry, 0: the queue's back-off
}

func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Message
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Errorf returns an Error with the code's default for Retryable.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Retryable: code.Retryable()}
}

// Invalid returns an INVALID_INPUT error about one field of the payload.
func Invalid(field, format string, args ...any) *Error {
	e := Errorf(CodeInvalidInput, format, args...)
	e.Field = field
	e.Message = field + ": " + e.Message
	return e
}

// AsError turns any error into an *Error: a context error becomes CANCELLED or
// DEADLINE_EXCEEDED, an unknown one ENGINE_ERROR.
func AsError(err error) *Error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return Errorf(CodeDeadlineExceeded, "the task ran out of time: %v", err)
	case errors.Is(err, context.Canceled):
		return Errorf(CodeCancelled, "the task was cancelled")
	}
	return Errorf(CodeEngineError, "%v", err)
}
