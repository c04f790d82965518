package forward

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

// Name of the executor.
const Name = "forward"

const (
	aiProcessing = "ai_processing"
	maxToken     = 16 << 10
	dialTimeout  = 10 * time.Second
)

// Executor implements executors.Executor.
type Executor struct {
	version  string
	settings Settings
	client   *http.Client
}

var (
	_ executors.Executor = (*Executor)(nil)
	_ executors.Closer   = (*Executor)(nil)
)

// New returns the executor. version is what Describe reports.
func New(version string, s Settings) (*Executor, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return &Executor{version: version, settings: s, client: &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil,
			DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    dialTimeout,
			MaxIdleConnsPerHost:    s.Concurrency,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
		},
		// A redirect would carry payload and token to somebody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// FromEnvironment builds the executor as its process does: with the settings
// that the agent hands over.
func FromEnvironment(version string) (executors.Executor, error) {
	s := Defaults()
	if err := executors.Settings(&s); err != nil {
		return nil, err
	}
	return New(version, s)
}

// Describe is ready when a URL is set and the token can be read.
func (e *Executor) Describe(context.Context) (executors.Description, error) {
	d := executors.Description{Name: Name, Version: e.version, Concurrency: e.settings.Concurrency}
	for _, name := range e.settings.Types {
		d.Types = append(d.Types, e.describeType(name))
	}
	if e.settings.URL == "" {
		d.Reasons = append(d.Reasons, fmt.Sprintf("executors.forward.url is not set (set it to the URL that tasks of type %s are posted to)", strings.Join(e.settings.Types, ", ")))
	}
	if _, err := e.token(); err != nil {
		d.Reasons = append(d.Reasons, err.Error())
	}
	d.Ready = len(d.Reasons) == 0
	return d, nil
}

func (e *Executor) describeType(name string) executors.TypeDescription {
	t := executors.TypeDescription{Type: name, DefaultTimeout: e.settings.Timeout, MaxTimeout: e.settings.MaxTimeout}
	t.MakesSpoolDir = true // no task leaves a file
	if name == aiProcessing {
		t.Ops = []string{"agent"} // other types have the operations of their service
	}
	return t
}

// Close drops idle connections.
func (e *Executor) Close() error {
	e.client.CloseIdleConnections()
	return nil
}

// Execute posts the task and returns what the service answers.
func (e *Executor) Execute(ctx context.Context, task executors.Task) (executors.Result, error) {
	if e.settings.URL == "" {
		return executors.Result{}, executors.Errorf(executors.CodeEngineUnavailable, "executors.forward.url is not set")
	}
	if _, err := executors.DecodeCommon(task); err != nil {
		return executors.Result{}, err
	}
	op := "forward"
	if task.Type == aiProcessing {
		var err error
		if op, err = executors.Op(task, e.describeType(task.Type)); err != nil {
			return executors.Result{}, err
		}
	}
	req, err := e.request(ctx, task)
	if err != nil {
		return executors.Result{Op: op}, err
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return executors.Result{Op: op}, e.unreachable(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, executors.MaxOutput+1))
	if err != nil {
		return executors.Result{Op: op}, e.unreachable(ctx, err)
	}
	out, err := e.answer(resp, body)
	return executors.Result{Op: op, Output: out}, err
}

func (e *Executor) request(ctx context.Context, task executors.Task) (*http.Request, error) {
	body, err := json.Marshal(struct {
		TaskID  string          `json:"task_id"`
		Type    string          `json:"type"`
		Payload json.RawMessage `json:"payload"`
	}{task.ID, task.Type, task.Payload})
	if err != nil {
		return nil, executors.Invalid("payload", "%v", err)
	}
	token, err := e.token()
	if err != nil {
		return nil, executors.Errorf(executors.CodeEngineUnavailable, "%v", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.settings.URL, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "autobot-forward")
	if traceParent.MatchString(task.Trace) {
		req.Header.Set("traceparent", task.Trace)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req, nil
}

// traceParent is the header of the W3C Trace Context.
var traceParent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// token reads the bearer token, "" when none is configured.
func (e *Executor) token() (string, error) {
	if e.settings.TokenFile == "" {
		return "", nil
	}
	f, err := os.Open(e.settings.TokenFile)
	if err != nil {
		return "", fmt.Errorf("read executors.forward.token_file: %w", err)
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxToken))
	if err != nil {
		return "", fmt.Errorf("read executors.forward.token_file: %w", err)
	}
	token := strings.TrimSpace(string(raw))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("executors.forward.token_file: %s must hold one token of printable ASCII", e.settings.TokenFile)
	}
	return token, nil
}

// unreachable tells of a request without an answer. It may be tried again.
func (e *Executor) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	failed := executors.Errorf(executors.CodeEngineError, "%s gave no answer: %v", e.settings.URL, err)
	failed.Hint = "check that the service runs and that executors.forward.url is right"
	return failed
}
