package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/autobot-fleet/autobot/control/auth"
	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/queue"
)

// Errors of the queue name the task and what was asked: they go out as they
// are.

// maxKey bounds ids in paths. Ids of foreign producers may be any bytes.
const maxKey = 512

// taskID is the id in the path.
func taskID(r *http.Request) (string, error) {
	id := r.PathValue("id")
	if id == "" || len(id) > maxKey {
		return "", invalid("id", "must have 1-%d bytes", maxKey)
	}
	return id, nil
}

// listTasks serves GET /api/tasks: a page without payloads.
func (a *API) listTasks(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "status", "type", "worker", "queue", "code", "limit", "cursor")
	if err != nil {
		return err
	}
	f := queue.Filter{
		Status: queue.Status(q.Get("status")), Type: q.Get("type"), Worker: q.Get("worker"),
		Queue: q.Get("queue"), Code: q.Get("code"), Cursor: q.Get("cursor"),
	}
	if f.Status != "" && !f.Status.Known() {
		return invalid("query.status", "must be one of queued, running, completed, failed, failed_permanent, cancelled, got %q", show(string(f.Status)))
	}
	if f.Limit, err = whole(q.Get("limit"), "query.limit", 100, 1, 1000); err != nil {
		return err
	}
	tasks, cursor, err := a.Queue.List(r.Context(), f)
	if err != nil {
		return err
	}
	page := taskPage{Tasks: make([]taskRow, 0, len(tasks)), Cursor: cursor}
	for _, t := range tasks {
		page.Tasks = append(page.Tasks, rowOf(t))
	}
	return ok(w, page)
}

// whole reads a number of a query within limits.
func whole(text, field string, standard, low, high int) (int, error) {
	if text == "" {
		return standard, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, invalid(field, "must be a whole number %d..%d, got %q", low, high, show(text))
	}
	return n, nil
}

// getTask serves GET /api/tasks/{id}.
func (a *API) getTask(w http.ResponseWriter, r *http.Request) error {
	id, err := taskID(r)
	if err != nil {
		return err
	}
	t, err := a.Queue.Get(r.Context(), id)
	if err != nil {
		return err
	}
	v := taskView{taskRow: rowOf(*t), Payload: safeJSON(t.Payload), TimeoutSeconds: t.Timeout.Seconds()}
	if progress, err := a.Queue.Progress(r.Context(), id); err != nil {
		return err
	} else if len(progress) > 0 {
		v.LatestProgress = safeJSON(progress)
	}
	if t.Status != queue.StatusCompleted {
		failure, err := a.Queue.Failure(r.Context(), id)
		if err != nil {
			return err
		}
		v.LatestFailure = safeJSON(failure)
	} else if _, err := a.Queue.Result(r.Context(), id); err == nil {
		v.ResultAvailable = true
	} else if !errors.Is(err, queue.ErrExpired) {
		return err
	}
	return ok(w, v)
}

// getResult serves GET /api/tasks/{id}/result: the document itself, or why
// there is none: 404 unknown, 409 not finished, 410 expired, and for a task
// that failed the status that belongs to its error code.
func (a *API) getResult(w http.ResponseWriter, r *http.Request) error {
	id, err := taskID(r)
	if err != nil {
		return err
	}
	doc, err := a.Queue.Result(r.Context(), id)
	var failed *queue.FailedError
	if errors.As(err, &failed) {
		return failure(id, failed)
	}
	if err != nil {
		return err
	}
	return ok(w, safeJSON(doc))
}

// failure is the answer in place of a result.
func failure(id string, f *queue.FailedError) error {
	body := &apiwire.ErrorReply{TaskID: id, Status: f.Status}
	// Members that are missing or that a foreign worker wrote in another
	// shape are filled from the task itself.
	var doc struct {
		Error     json.RawMessage `json:"error"`
		Artifacts json.RawMessage `json:"artifacts"`
		Meta      json.RawMessage `json:"meta"`
	}
	if json.Unmarshal(safeJSON(f.Document), &doc) == nil {
		body.Error, body.Artifacts, body.Meta = doc.Error, doc.Artifacts, doc.Meta
	}
	code := executors.Code(f.Code)
	if code == "" && f.Status == queue.StatusCancelled {
		code = executors.CodeCancelled
	}
	var told executors.Error
	if json.Unmarshal(body.Error, &told) != nil || told.Code == "" {
		told = executors.Error{Code: code, Message: f.Message}
		body.Error = mustJSON(told)
	}
	if code == "" {
		code = told.Code
	}
	p := refuse(code.HTTPStatus(), "task %q: %s", show(id), f.Error())
	p.body = body
	return p
}

// cancelTask serves POST /api/tasks/{id}/cancel. Status running in the answer
// means that the worker has been asked to stop.
func (a *API) cancelTask(w http.ResponseWriter, r *http.Request) error {
	id, err := taskID(r)
	if err != nil {
		return err
	}
	status, err := a.Queue.Cancel(r.Context(), id, caller(r.Context()))
	if err != nil {
		return err
	}
	return ok(w, apiwire.StatusReply{TaskID: id, Status: status})
}

// caller names who asks, for people. Who holds the internal key has no name.
func caller(ctx context.Context) string {
	id := auth.FromContext(ctx)
	if id.Method == "internal_key" {
		return "an operator"
	}
	return id.Username
}

// retryTask serves POST /api/tasks/{id}/retry.
func (a *API) retryTask(w http.ResponseWriter, r *http.Request) error {
	id, err := taskID(r)
	if err != nil {
		return err
	}
	if err := a.Queue.Retry(r.Context(), id); err != nil {
		return err
	}
	return ok(w, apiwire.StatusReply{TaskID: id, Status: queue.StatusQueued})
}

// deleteTask serves DELETE /api/tasks/{id}.
func (a *API) deleteTask(w http.ResponseWriter, r *http.Request) error {
	id, err := taskID(r)
	if err != nil {
		return err
	}
	if err := a.Queue.Delete(r.Context(), id); err != nil {
		return err
	}
	return ok(w, apiwire.StatusReply{TaskID: id, Status: apiwire.StatusDeleted})
}

// reprioritise serves POST /api/tasks/{id}/priority.
func (a *API) reprioritise(w http.ResponseWriter, r *http.Request) error {
	id, err := taskID(r)
	if err != nil {
		return err
	}
	var req apiwire.PriorityRequest
	if err := decode(w, r, &req); err != nil {
		return err
	}
	if len(req.Priority) == 0 {
		return invalid("priority", "is required")
	}
	p, err := priority(req.Priority)
	if err != nil {
		return invalid("priority", "%v", err)
	}
	if err := a.Queue.Reprioritise(r.Context(), id, p); err != nil {
		return err
	}
	return ok(w, apiwire.StatusReply{TaskID: id, Status: queue.StatusQueued})
}
