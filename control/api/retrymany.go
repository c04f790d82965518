package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/queue"
)

// maxRetries is how many tasks one request may retry.
const maxRetries = 1000

// retryMany serves POST /api/tasks/retry: every task that a filter selects.
// With dry_run it only says which ones.
func (a *API) retryMany(w http.ResponseWriter, r *http.Request) error {
	var req apiwire.RetryRequest
	if err := decode(w, r, &req); err != nil {
		return err
	}
	f, limit, err := retryFilter(req)
	if err != nil {
		return err
	}
	// The ids are read first: retrying takes tasks out of the list that the
	// cursor walks.
	ids, err := a.selectIDs(r.Context(), f, limit)
	if err != nil {
		return fmt.Errorf("select tasks to retry: %w", err)
	}
	out := apiwire.RetryReply{DryRun: req.DryRun, Retried: ids}
	if req.DryRun {
		return ok(w, out)
	}
	out.Retried, out.Refused = []string{}, map[string]string{}
	for _, id := range ids {
		err := a.Queue.Retry(r.Context(), id)
		switch {
		case err == nil:
			out.Retried = append(out.Retried, id)
		case errors.Is(err, queue.ErrConflict), errors.Is(err, queue.ErrNotFound):
			out.Refused[id] = err.Error()
		case len(out.Retried) == 0:
			return fmt.Errorf("retry task %s: %w", show(id), err)
		default: // what was done has to be told; the caller repeats the request for the rest
			out.Refused[id] = translate(err).detail
			return ok(w, out)
		}
	}
	return ok(w, out)
}

func retryFilter(req apiwire.RetryRequest) (queue.Filter, int, error) {
	f := queue.Filter{Status: req.Status, Type: req.Type, Worker: req.Worker, Queue: req.Queue, Code: req.Code}
	if f == (queue.Filter{}) {
		return f, 0, invalid("body", "needs at least one of status, type, worker, queue and code: it selects what is retried")
	}
	switch req.Status {
	case "":
		f.Status = queue.StatusFailedPermanent
	case queue.StatusFailedPermanent, queue.StatusCancelled:
	default:
		return f, 0, invalid("status", "must be failed_permanent or cancelled, got %q", show(string(req.Status)))
	}
	switch {
	case req.Limit == 0:
		return f, 100, nil
	case req.Limit < 0 || req.Limit > maxRetries:
		return f, 0, invalid("limit", "must be 1..%d, got %d", maxRetries, req.Limit)
	}
	return f, req.Limit, nil
}

// selectIDs walks the pages of a filter.
func (a *API) selectIDs(ctx context.Context, f queue.Filter, limit int) ([]string, error) {
	ids := []string{}
	for len(ids) < limit {
		f.Limit = min(limit-len(ids), 500)
		tasks, cursor, err := a.Queue.List(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, t := range tasks {
			ids = append(ids, t.ID)
		}
		if cursor == "" {
			break
		}
		f.Cursor = cursor
	}
	return ids[:min(len(ids), limit)], nil
}
