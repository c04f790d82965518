package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/queue"
)

// Errors that callers branch on, beside those of package queue.
var (
	// ErrUnreachable says that the control plane or Redis cannot be reached.
	ErrUnreachable = errors.New("unreachable")
	// ErrTryLater says that it was reached and cannot do this now.
	ErrTryLater = errors.New("try again later")
	// ErrDenied says that the key or token is missing, wrong or not enough.
	ErrDenied = errors.New("access denied")
	// ErrUnsupported says that this way in (Dial or Connect) cannot do it; the
	// message names the one that can.
	ErrUnsupported = errors.New("not possible here")
)

// Error is a refusal of the control plane.
type Error struct {
	Status     int           // HTTP status
	Detail     string        // one sentence
	RetryAfter time.Duration // 0 when the control plane did not say
	cause      error
}

func (e *Error) Error() string { return e.Detail }

// Unwrap returns what kind of refusal it is: an error of package queue or one
// of this package, nil for other refusals.
func (e *Error) Unwrap() error { return e.cause }

// request says what an answer belongs to, as the meaning of a status depends
// on it.
type request struct {
	method, path string
	unique       string // unique key of a submission
	id           string // chosen id of a submission
}

// refusal turns an answer that is not a success into an error.
func refusal(req request, status int, header http.Header, body []byte) error {
	var told apiwire.ErrorReply
	if json.Unmarshal(body, &told) != nil || told.Detail == "" {
		return &Error{Status: status, Detail: fmt.Sprintf("the answer to %s %s is %d without a reason: is it a control plane that answers there?", req.method, req.path, status)}
	}
	if told.Status != "" && strings.HasSuffix(req.path, "/result") {
		return failed(told)
	}
	e := &Error{Status: status, Detail: told.Detail, cause: causeOf(req, status, told)}
	if wait, err := time.ParseDuration(header.Get("Retry-After") + "s"); err == nil {
		e.RetryAfter = wait
	}
	if status == http.StatusNotFound && told.Detail == "Not Found" {
		e.Detail, e.cause = fmt.Sprintf("the control plane does not know %s %s: it is of another version than this program", req.method, req.path), nil
	}
	return e
}

// causeOf finds the error that other ways in would return.
func causeOf(req request, status int, told apiwire.ErrorReply) error {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return invalid(told.Detail)
	case http.StatusUnauthorized, http.StatusForbidden:
		return ErrDenied
	case http.StatusNotFound:
		return queue.ErrNotFound
	case http.StatusGone:
		return queue.ErrExpired
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return ErrTryLater
	case http.StatusConflict:
		return conflict(req, told)
	}
	return nil
}

func conflict(req request, told apiwire.ErrorReply) error {
	switch {
	case strings.HasSuffix(req.path, "/result"):
		return queue.ErrNotFinished
	case told.TaskID != "" && told.TaskID == req.id:
		return queue.ErrExists
	case told.TaskID != "":
		return &queue.DuplicateError{Key: req.unique, ID: told.TaskID}
	}
	return queue.ErrConflict
}

// inList is how the control plane names an entry of a list of submissions.
var inList = regexp.MustCompile(`^\[\d+\](\.|: )?`)

// invalid takes the sentence about a broken rule apart again.
func invalid(detail string) error {
	detail = inList.ReplaceAllString(detail, "")
	field, rule, ok := strings.Cut(detail, ": ")
	if !ok || strings.ContainsRune(field, ' ') {
		return &queue.InvalidError{Field: "request", Rule: detail}
	}
	return &queue.InvalidError{Field: field, Rule: rule}
}

// failed is the answer in place of the result of a task that failed.
func failed(told apiwire.ErrorReply) error {
	f := &queue.FailedError{Status: told.Status, Message: told.Detail}
	var inner struct{ Code, Message string }
	if json.Unmarshal(told.Error, &inner) == nil {
		f.Code = inner.Code
		if inner.Message != "" {
			f.Message = inner.Message
		}
	}
	doc, err := json.Marshal(struct {
		Error     json.RawMessage `json:"error,omitempty"`
		Artifacts json.RawMessage `json:"artifacts,omitempty"`
		Meta      json.RawMessage `json:"meta,omitempty"`
	}{told.Error, told.Artifacts, told.Meta})
	if err == nil {
		f.Document = doc
	}
	return f
}

// passing reports whether an error may be gone a moment later.
func passing(err error) bool {
	return errors.Is(err, ErrUnreachable) || errors.Is(err, ErrTryLater)
}
