package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/queue"
)

const (
	bulkEntries = 500     // submissions in one request; the control plane takes 1000
	bulkBytes   = 8 << 20 // bytes of them; it takes 32 MiB
)

func (r *remote) get(ctx context.Context, path string, query url.Values, out any) error {
	return r.call(ctx, request{method: http.MethodGet, path: path}, query, nil, out)
}

func (r *remote) post(ctx context.Context, path string, body, out any) error {
	return r.call(ctx, request{method: http.MethodPost, path: path}, nil, body, out)
}

func taskPath(id string, more ...string) string {
	path := "/api/tasks/" + url.PathEscape(id)
	for _, m := range more {
		path += "/" + m
	}
	return path
}

// Submit implements queue.Producer.
func (r *remote) Submit(ctx context.Context, s queue.Submission) (queue.Receipt, error) {
	if err := s.Validate(); err != nil {
		return queue.Receipt{}, err
	}
	var reply apiwire.SubmitReply
	req := request{method: http.MethodPost, path: "/api/tasks", id: s.ID, unique: s.UniqueKey}
	if err := r.call(ctx, req, nil, wire(s), &reply); err != nil {
		return queue.Receipt{}, err
	}
	return queue.Receipt{ID: reply.TaskID, Queue: reply.Queue, Status: reply.Status}, nil
}

// SubmitAll implements queue.Producer.
func (r *remote) SubmitAll(ctx context.Context, all []queue.Submission) ([]queue.Receipt, error) {
	out := make([]queue.Receipt, len(all))
	var texts []json.RawMessage
	var at []int
	for i, s := range all {
		if out[i].Err = s.Validate(); out[i].Err != nil {
			continue
		}
		text, err := json.Marshal(wire(s))
		if err != nil {
			return nil, fmt.Errorf("write submission %d: %w", i, err)
		}
		texts, at = append(texts, text), append(at, i)
	}
	receipts, err := r.submitJSON(ctx, texts)
	for j, receipt := range receipts {
		out[at[j]] = receipt
	}
	return out, err
}

// submitJSON sends submissions as they are written in JSON, in parts.
func (r *remote) submitJSON(ctx context.Context, texts []json.RawMessage) ([]queue.Receipt, error) {
	out := make([]queue.Receipt, 0, len(texts))
	for len(texts) > 0 {
		n, bytes := 0, 0
		for n < len(texts) && n < bulkEntries && (n == 0 || bytes+len(texts[n]) <= bulkBytes) {
			bytes += len(texts[n])
			n++
		}
		var replies []apiwire.SubmitReply
		if err := r.post(ctx, "/api/tasks", texts[:n], &replies); err != nil {
			return out, err
		}
		if len(replies) != n {
			return out, fmt.Errorf("the control plane answered %d of %d submissions", len(replies), n)
		}
		for i, reply := range replies {
			out = append(out, receiptOf(texts[i], reply))
		}
		texts = texts[n:]
	}
	return out, nil
}

func receiptOf(text json.RawMessage, reply apiwire.SubmitReply) queue.Receipt {
	out := queue.Receipt{ID: reply.TaskID, Queue: reply.Queue, Status: reply.Status}
	if reply.Detail == "" {
		return out
	}
	var s struct {
		ID        string `json:"id"`
		UniqueKey string `json:"unique_key"`
	}
	_ = json.Unmarshal(text, &s) // what is not JSON has neither
	detail := inList.ReplaceAllString(reply.Detail, "")
	told := apiwire.ErrorReply{Detail: detail, TaskID: reply.TaskID}
	req := request{method: http.MethodPost, path: "/api/tasks", id: s.ID, unique: s.UniqueKey}
	out.ID = s.ID
	out.Err = &Error{Status: reply.Code, Detail: detail, cause: causeOf(req, reply.Code, told)}
	return out
}

// wire is a submission as the API takes it.
func wire(s queue.Submission) apiwire.SubmitRequest {
	req := apiwire.SubmitRequest{
		ID: s.ID, Type: s.Type, Payload: s.Payload, Queue: s.Queue, MaxRetries: s.MaxRetries, Timeout: s.Timeout.Seconds(),
		ResultTTL: s.ResultTTL.Seconds(), UniqueKey: s.UniqueKey, Exclude: s.Exclude, Worker: s.Worker, Labels: s.Labels, Trace: s.Trace,
	}
	if s.Priority != "" {
		req.Priority = quoted(string(s.Priority))
	}
	if !s.Deadline.IsZero() {
		req.Deadline = quoted(s.Deadline.UTC().Format(time.RFC3339Nano))
	}
	switch {
	case s.Delay > 0:
		req.Delay = s.Delay.Seconds()
	case s.Delay == 0 && !s.RunAt.IsZero():
		req.RunAt = quoted(s.RunAt.UTC().Format(time.RFC3339Nano))
	}
	return req
}

func quoted(s string) json.RawMessage {
	b, _ := json.Marshal(s) // a string never fails
	return b
}

// Get implements queue.Producer.
func (r *remote) Get(ctx context.Context, id string) (*queue.Task, error) {
	v, err := r.view(ctx, id)
	if err != nil {
		return nil, err
	}
	t := v.Task
	t.Payload = v.Payload
	t.Timeout = time.Duration(v.TimeoutSeconds * float64(time.Second))
	return &t, nil
}

func (r *remote) view(ctx context.Context, id string) (apiwire.TaskView, error) {
	var v apiwire.TaskView
	err := r.get(ctx, taskPath(id), nil, &v)
	return v, err
}

// Result implements queue.Producer.
func (r *remote) Result(ctx context.Context, id string) (json.RawMessage, error) {
	var doc json.RawMessage
	if err := r.get(ctx, taskPath(id, "result"), nil, &doc); err != nil {
		return nil, err
	}
	return doc, nil
}

// Failure implements queue.Producer.
func (r *remote) Failure(ctx context.Context, id string) (json.RawMessage, error) {
	v, err := r.view(ctx, id)
	return v.LatestFailure, err
}

// Progress implements queue.Producer.
func (r *remote) Progress(ctx context.Context, id string) (json.RawMessage, error) {
	v, err := r.view(ctx, id)
	return v.LatestProgress, err
}

// List implements queue.Producer.
func (r *remote) List(ctx context.Context, f queue.Filter) ([]queue.Task, string, error) {
	q := url.Values{}
	for name, value := range map[string]string{
		"status": string(f.Status), "type": f.Type, "worker": f.Worker, "queue": f.Queue, "code": f.Code, "cursor": f.Cursor,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	var page apiwire.TaskPage
	err := r.get(ctx, "/api/tasks", q, &page)
	return page.Tasks, page.Cursor, err
}

// Cancel implements queue.Producer; the control plane knows who asks.
func (r *remote) Cancel(ctx context.Context, id, _ string) (queue.Status, error) {
	var reply apiwire.StatusReply
	err := r.post(ctx, taskPath(id, "cancel"), nil, &reply)
	return reply.Status, err
}

// Retry implements queue.Producer.
func (r *remote) Retry(ctx context.Context, id string) error {
	return r.post(ctx, taskPath(id, "retry"), nil, nil)
}

// Delete implements queue.Producer.
func (r *remote) Delete(ctx context.Context, id string) error {
	return r.call(ctx, request{method: http.MethodDelete, path: taskPath(id)}, nil, nil, nil)
}

// Reprioritise implements queue.Producer.
func (r *remote) Reprioritise(ctx context.Context, id string, p queue.Priority) error {
	return r.post(ctx, taskPath(id, "priority"), apiwire.PriorityRequest{Priority: quoted(string(p))}, nil)
}
