package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/queue"
)

// submit serves POST /api/tasks: an object is one submission, a list up to
// maxBulk, each with an answer of its own.
func (a *API) submit(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, maxBulkBody)
	if err != nil {
		return err
	}
	if body = bytes.TrimSpace(body); len(body) > 0 && body[0] == '[' {
		return a.submitMany(w, r, body)
	}
	if len(body) > maxBody {
		return tooLarge("body", len(body), maxBody)
	}
	s, err := decodeSubmission(body, "")
	if err != nil {
		return err
	}
	receipt, err := a.Queue.Submit(r.Context(), s)
	if err != nil {
		return submitError(err, s)
	}
	return ok(w, accepted(receipt))
}

// submitMany answers 200 whatever became of the single entries.
func (a *API) submitMany(w http.ResponseWriter, r *http.Request, body []byte) error {
	entries, err := splitList(body)
	if err != nil {
		return err
	}
	replies := make([]apiwire.SubmitReply, len(entries))
	good := make([]queue.Submission, 0, len(entries))
	at := make([]int, 0, len(entries)) // index in entries of each good one
	for i, e := range entries {
		s, err := decodeEntry(e, fmt.Sprintf("[%d]", i))
		if err != nil {
			replies[i] = refused(err)
			continue
		}
		good, at = append(good, s), append(at, i)
	}
	if len(good) == 0 {
		return ok(w, replies)
	}
	receipts, err := a.Queue.SubmitAll(r.Context(), good)
	if err != nil {
		return fmt.Errorf("submit %d tasks: %w", len(good), err)
	}
	for j, receipt := range receipts {
		if receipt.Err != nil {
			replies[at[j]] = refused(submitError(receipt.Err, good[j]))
		} else {
			replies[at[j]] = accepted(receipt)
		}
	}
	return ok(w, replies)
}

// splitList takes a list apart, and stops where it gets too long: a small body
// can hold millions of empty entries.
func splitList(body []byte) ([]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	broken := func(err error) error {
		return invalid("body", "is not valid JSON: %v (at byte %d)", err, dec.InputOffset())
	}
	if _, err := dec.Token(); err != nil { // the bracket
		return nil, broken(err)
	}
	var entries []json.RawMessage
	for dec.More() {
		if len(entries) == maxBulk {
			return nil, refuse(http.StatusRequestEntityTooLarge, "the list has more than %d submissions: send it in parts", maxBulk)
		}
		var e json.RawMessage
		if err := dec.Decode(&e); err != nil {
			return nil, broken(err)
		}
		entries = append(entries, e)
	}
	if _, err := dec.Token(); err != nil {
		return nil, broken(err)
	}
	if rest := bytes.TrimSpace(body[dec.InputOffset():]); len(rest) > 0 {
		return nil, broken(errors.New("more data after the list"))
	}
	return entries, nil
}

// decodeEntry is decodeSubmission for a part of a list.
func decodeEntry(b []byte, path string) (queue.Submission, error) {
	if len(b) > maxBody {
		return queue.Submission{}, tooLarge(path, len(b), maxBody)
	}
	return decodeSubmission(b, path)
}

func accepted(r queue.Receipt) apiwire.SubmitReply {
	return apiwire.SubmitReply{TaskID: r.ID, Queue: r.Queue, Status: r.Status}
}

// refused is the entry of a list for an error.
func refused(err error) apiwire.SubmitReply {
	p := translate(err)
	out := apiwire.SubmitReply{Detail: p.detail, Code: p.status}
	if p.body != nil {
		out.TaskID = p.body.TaskID
	}
	if out.Detail == "" {
		out.Detail = "internal error"
	}
	return out
}

// submitError adds what the caller should know about a refusal.
func submitError(err error, s queue.Submission) error {
	if errors.Is(err, queue.ErrExists) {
		p := refuse(http.StatusConflict, "id: %v: %s", queue.ErrExists, s.ID)
		p.body = &apiwire.ErrorReply{TaskID: s.ID}
		return p
	}
	return err
}

// decodeSubmission reads and checks one submission. Path names it in errors.
func decodeSubmission(b []byte, path string) (queue.Submission, error) {
	var req apiwire.SubmitRequest
	given, err := decodeObject(b, path, &req)
	if err != nil {
		return queue.Submission{}, err
	}
	if len(req.Payload) > queue.MaxPayload {
		return queue.Submission{}, tooLarge(join(path, "payload"), len(req.Payload), queue.MaxPayload)
	}
	_, hasRunAt := given["run_at"]
	if _, hasDelay := given["delay"]; hasRunAt && hasDelay {
		return queue.Submission{}, invalid(join(path, "delay"), "cannot be given together with run_at")
	}
	s := queue.Submission{
		ID: req.ID, Type: req.Type, Payload: req.Payload, Queue: req.Queue, MaxRetries: req.MaxRetries,
		UniqueKey: req.UniqueKey, Exclude: req.Exclude, Worker: req.Worker, Labels: req.Labels, Trace: req.Trace,
	}
	for _, step := range []struct {
		field string
		read  func() error
	}{
		{"id", func() error { return checkNewID(req.ID, given) }},
		{"priority", func() (err error) { s.Priority, err = priority(req.Priority); return }},
		{"timeout", func() (err error) { s.Timeout, err = seconds(req.Timeout); return }},
		{"delay", func() (err error) { s.Delay, err = seconds(max(req.Delay, 0)); return }},
		{"result_ttl", func() (err error) { s.ResultTTL, err = lifetime(req.ResultTTL); return }},
		{"run_at", func() (err error) { s.RunAt, err = moment(req.RunAt); return }},
		{"deadline", func() (err error) { s.Deadline, err = moment(req.Deadline); return }},
		{"labels", func() error { return checkLabels(req.Labels) }},
		{"trace", func() error { return checkTrace(req.Trace) }},
	} {
		if err := step.read(); err != nil {
			return queue.Submission{}, invalid(join(path, step.field), "%v", err)
		}
	}
	var bad *queue.InvalidError
	if err := s.Validate(); errors.As(err, &bad) {
		return queue.Submission{}, invalid(join(path, bad.Field), "%s", bad.Rule)
	} else if err != nil {
		return queue.Submission{}, err
	}
	return s, nil
}

func tooLarge(what string, n, limit int) error {
	return refuse(http.StatusRequestEntityTooLarge, "TOO_LARGE: %s has %d bytes, the limit is %d: pass large input as an artifact", what, n, limit)
}

// reservedSuffixes end keys of our own: an id with one of them would collide
// with the keys of another task.
var reservedSuffixes = []string{":result", ":failure", ":progress", ":events"}

func checkNewID(id string, given map[string]json.RawMessage) error {
	if _, present := given["id"]; present && id == "" {
		return errors.New("must not be empty (leave it out to have one made)")
	}
	for _, suffix := range reservedSuffixes {
		if strings.HasSuffix(id, suffix) {
			return fmt.Errorf("must not end in %q", suffix)
		}
	}
	return nil
}

// priority reads a word, a number 1..4 or such a number as a string.
func priority(raw json.RawMessage) (queue.Priority, error) {
	if len(raw) == 0 {
		return "", nil
	}
	text := string(raw)
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return "", err
		}
		if text == "" {
			return "", errors.New("must not be empty")
		}
	}
	p, err := queue.ParsePriority(text)
	var bad *queue.InvalidError
	if errors.As(err, &bad) {
		return "", errors.New(bad.Rule)
	}
	return p, err
}

// maxSeconds keeps every duration inside an int64 of nanoseconds; narrower
// limits are the queue's.
const maxSeconds = 100 * 365 * 24 * 3600

func seconds(f float64) (time.Duration, error) {
	if f < -maxSeconds || f > maxSeconds {
		return 0, fmt.Errorf("is out of range, got %v (it is in seconds)", f)
	}
	return time.Duration(f * float64(time.Second)), nil
}

func lifetime(f float64) (time.Duration, error) {
	if f != 0 && (f < 1 || f > 30*24*3600) {
		return 0, fmt.Errorf("must be between 1 second and 30 days, got %v (it is in seconds)", f)
	}
	return seconds(f)
}

// moment reads RFC 3339 text or Unix seconds.
func moment(raw json.RawMessage) (time.Time, error) {
	if len(raw) == 0 {
		return time.Time{}, nil
	}
	if raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return time.Time{}, err
		}
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return time.Time{}, fmt.Errorf("must be a time with a zone as in 2026-03-16T02:00:00Z, or Unix seconds, got %s", show(string(raw)))
		}
		return t, nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("must be a time with a zone as in 2026-03-16T02:00:00Z, or Unix seconds, got %s", show(string(raw)))
	}
	if f < 0 || f > 1e11 {
		return time.Time{}, fmt.Errorf("must be in Unix seconds, got %s (milliseconds?)", show(string(raw)))
	}
	return time.UnixMicro(int64(f * 1e6)), nil
}

func checkLabels(labels map[string]string) error {
	if len(labels) > 64 {
		return fmt.Errorf("has %d entries, the limit is 64", len(labels))
	}
	for k, v := range labels {
		if k == "" || len(k) > 128 || len(v) > 1024 {
			return fmt.Errorf("must have names of 1-128 bytes and values of at most 1024, see %q", show(k))
		}
	}
	return nil
}

func checkTrace(trace string) error {
	if len(trace) > 128 {
		return fmt.Errorf("has %d bytes, the limit is 128", len(trace))
	}
	for _, c := range trace {
		if c < ' ' || c > '~' {
			return errors.New("must be printable ASCII")
		}
	}
	return nil
}
