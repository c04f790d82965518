package ov

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Errors that callers branch on.
var (
	// ErrClosed: the runtime, model or request was closed.
	ErrClosed = errors.New("closed")
	// ErrOpen: this process has a runtime already.
	ErrOpen = errors.New("the OpenVINO runtime is open already: a process has one")
	// ErrInput: the inputs do not fit the model. Nothing was run.
	ErrInput = errors.New("input does not fit the model")
	// ErrNoDevice: the device is not there, or may not be named.
	ErrNoDevice = errors.New("device is not available")
	// ErrCancelled: the context ended first. Its cause is wrapped beside it.
	ErrCancelled = errors.New("cancelled")
	// ErrBusy: the library says that a request is running.
	ErrBusy = errors.New("infer request is busy")
)

// Status codes of the C API.
const (
	statusOK        status = 0
	statusNotFound  status = -5
	statusBusy      status = -8
	statusNotReady  status = -9
	statusCancelled status = -13
	statusParameter status = -14
)

var statusNames = map[status]string{
	-1: "general error", -2: "not implemented", -3: "network not loaded", -4: "parameter mismatch",
	-5: "not found", -6: "out of bounds", -7: "unexpected error", -8: "request busy", -9: "result not ready",
	-10: "not allocated", -11: "inference not started", -12: "network not read", -13: "cancelled",
	-14: "invalid parameter", -15: "unknown error", -16: "not implemented", -17: "unknown exception",
}

// Error is a call that the library refused.
type Error struct {
	Op     string // what was tried, on what
	Status int32  // the library's code, negative
	// Text is the library's last message, cleaned. The library keeps one for
	// the whole process, so under load it may be that of another call: a hint
	// for people, never something to decide by.
	Text string
}

func (e *Error) Error() string {
	name := statusNames[status(e.Status)]
	if name == "" {
		name = "unknown status"
	}
	if e.Text == "" {
		return fmt.Sprintf("%s: %s (openvino status %d)", e.Op, name, e.Status)
	}
	return fmt.Sprintf("%s: %s (openvino status %d)", e.Op, e.Text, e.Status)
}

// Is makes errors.Is work with ErrBusy and ErrCancelled.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrBusy:
		return status(e.Status) == statusBusy
	case ErrCancelled:
		return status(e.Status) == statusCancelled
	}
	return false
}

// failure is the error of an operation that answered st.
func (a *api) failure(op string, st status) error {
	e := &Error{Op: op, Status: int32(st)}
	switch st {
	case statusNotFound, statusBusy, statusNotReady, statusCancelled, statusParameter:
		// These write no message: what is there is an older one.
	default:
		e.Text = cleanText(a.take(a.lastError()))
	}
	return e
}

// maxText is how many bytes of a message are kept.
const maxText = 600

// origin is where in the library's source a message was raised.
var origin = regexp.MustCompile(`(Exception from|Check '.*?' failed at) \S+:\d+:?;?`)

// cleanText drops from a message what only says where in the library's source
// it was raised, and joins its lines.
func cleanText(text string) string {
	var kept []string
	for line := range strings.Lines(strings.ToValidUTF8(text, "\uFFFD")) {
		line = strings.TrimSpace(origin.ReplaceAllString(line, ""))
		if line != "" {
			kept = append(kept, line)
		}
	}
	text = strings.Join(kept, "; ")
	if len(text) > maxText {
		text = text[:maxText]
		for !utf8.ValidString(text) {
			text = text[:len(text)-1]
		}
		text += "…"
	}
	return text
}
