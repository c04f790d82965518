package redislist

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/autobot-fleet/autobot/queue"
)

// scanLimit bounds the ids that one List call looks at.
const scanLimit = 5000

func sortBy(s []string, less func(a, b string) bool) {
	sort.SliceStable(s, func(i, j int) bool { return less(s[i], s[j]) })
}

// A place is one list or index that holds task ids. List walks the places that
// can hold what the filter asks for, one after the other; the cursor is the
// index of the place and the offset in it.
type place struct {
	key  string
	kind byte // 'l' list from its head, 'r' list from its claiming end, 'z' index, newest first, 'd' delayed, soonest first
}

// List returns a page of tasks. See queue.Producer. Tasks that move between
// two calls can be seen twice or not at all.
func (b *Backend) List(ctx context.Context, f queue.Filter) ([]queue.Task, string, error) {
	limit := f.Limit
	switch {
	case limit == 0:
		limit = 100
	case limit < 0 || limit > 1000:
		return nil, "", &queue.InvalidError{Field: "limit", Rule: fmt.Sprintf("must be 1..1000, got %d", f.Limit)}
	}
	if f.Status != "" && !f.Status.Known() {
		return nil, "", &queue.InvalidError{Field: "status", Rule: fmt.Sprintf("must be queued, running, completed, failed, failed_permanent or cancelled, got %q", f.Status)}
	}
	at, offset, err := parseCursor(f.Cursor)
	if err != nil {
		return nil, "", err
	}
	places, err := b.places(ctx, f)
	if err != nil {
		return nil, "", err
	}
	var out []queue.Task
	for looked := 0; at < len(places); {
		if len(out) >= limit || looked >= scanLimit {
			return out, fmt.Sprintf("%d:%d", at, offset), nil
		}
		n := min(max(limit-len(out), 50), 500)
		ids, err := b.idsAt(ctx, places[at], offset, n)
		if err != nil {
			return nil, "", fmt.Errorf("list tasks: %w", err)
		}
		looked += len(ids) + 1
		tasks, err := b.tasks(ctx, ids)
		if err != nil {
			return nil, "", err
		}
		byID := make(map[string]queue.Task, len(tasks))
		for _, t := range tasks {
			byID[t.ID] = t
		}
		full := false
		for i, id := range ids {
			if t, ok := byID[id]; ok && matches(f, t) {
				out = append(out, t)
			}
			if len(out) == limit {
				offset += i + 1
				full = true
				break
			}
		}
		if full {
			continue
		}
		offset += len(ids)
		if len(ids) < n {
			at, offset = at+1, 0
		}
	}
	return out, "", nil
}

func matches(f queue.Filter, t queue.Task) bool {
	if f.Status == queue.StatusFailed && t.Status == queue.StatusFailedPermanent {
		f.Status = "" // people ask for "failed" and mean these
	}
	return (f.Status == "" || t.Status == f.Status) && (f.Type == "" || t.Type == f.Type) &&
		(f.Worker == "" || t.WorkerID == f.Worker || t.PreviousWorker == f.Worker) &&
		(f.Queue == "" || t.Queue == f.Queue) && (f.Code == "" || t.ErrorCode == f.Code)
}

func (b *Backend) places(ctx context.Context, f queue.Filter) ([]place, error) {
	wants := func(s queue.Status) bool { return f.Status == "" || f.Status == s }
	var out []place
	if wants(queue.StatusRunning) || wants(queue.StatusQueued) {
		names := []string{f.Queue}
		if f.Queue == "" {
			var err error
			if names, err = b.rdb.SMembers(ctx, b.key.queues()).Result(); err != nil {
				return nil, fmt.Errorf("list queues: %w", err)
			}
			slices.Sort(names)
		}
		if wants(queue.StatusRunning) {
			for _, n := range names {
				out = append(out, place{b.key.processing(n), 'l'})
			}
		}
		if wants(queue.StatusQueued) {
			for _, n := range names {
				out = append(out, place{b.key.queue(n), 'r'})
			}
			workers, err := b.rdb.SMembers(ctx, b.key.inboxes()).Result()
			if err != nil {
				return nil, fmt.Errorf("list inboxes: %w", err)
			}
			slices.Sort(workers)
			for _, w := range workers {
				out = append(out, place{b.key.inbox(w), 'r'})
			}
			out = append(out, place{b.key.delayed(), 'd'})
		}
	}
	if wants(queue.StatusFailedPermanent) || f.Status == queue.StatusFailed {
		out = append(out, place{b.key.failed(), 'z'})
	}
	if wants(queue.StatusCancelled) {
		out = append(out, place{b.key.cancelled(), 'z'})
	}
	if wants(queue.StatusCompleted) {
		out = append(out, place{b.key.completed(), 'z'})
	}
	return out, nil
}

func (b *Backend) idsAt(ctx context.Context, p place, offset, n int) ([]string, error) {
	from, to := int64(offset), int64(offset+n-1)
	switch p.kind {
	case 'z':
		return b.rdb.ZRevRange(ctx, p.key, from, to).Result()
	case 'd':
		return b.rdb.ZRange(ctx, p.key, from, to).Result()
	case 'r':
		ids, err := b.rdb.LRange(ctx, p.key, -to-1, -from-1).Result()
		slices.Reverse(ids)
		return ids, ignoreWrongType(err)
	}
	ids, err := b.rdb.LRange(ctx, p.key, from, to).Result()
	return ids, ignoreWrongType(err)
}

func ignoreWrongType(err error) error {
	if wrongType(err) {
		return nil
	}
	return err
}

func parseCursor(s string) (at, offset int, err error) {
	if s == "" {
		return 0, 0, nil
	}
	a, o, ok := strings.Cut(s, ":")
	at, err1 := strconv.Atoi(a)
	offset, err2 := strconv.Atoi(o)
	if !ok || err1 != nil || err2 != nil || at < 0 || offset < 0 || offset > 1<<40 {
		return 0, 0, &queue.InvalidError{Field: "cursor", Rule: "is not one that a listing returned"}
	}
	return at, offset, nil
}
