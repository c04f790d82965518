package redislist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/queue"
)

// Get returns a task with its payload. See queue.Producer.
func (b *Backend) Get(ctx context.Context, id string) (*queue.Task, error) {
	h, err := b.rdb.HGetAll(ctx, b.key.task(id)).Result()
	if err != nil {
		if wrongType(err) {
			return nil, fmt.Errorf("read task %q: its key is not a hash: %w", id, queue.ErrNotFound)
		}
		return nil, fmt.Errorf("read task %q: %w", id, err)
	}
	if len(h) == 0 {
		return nil, fmt.Errorf("read task %q: %w", id, queue.ErrNotFound)
	}
	t := b.decodeTask(id, h)
	return &t, nil
}

// Result returns the result document of a completed task. See queue.Producer.
func (b *Backend) Result(ctx context.Context, id string) (json.RawMessage, error) {
	pipe := b.rdb.Pipeline()
	hash := pipe.HMGet(ctx, b.key.task(id), "status", "last_error", "error_code", "id")
	result := pipe.Get(ctx, b.key.result(id))
	failure := pipe.Get(ctx, b.key.failure(id))
	exists := pipe.Exists(ctx, b.key.task(id))
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) && !wrongType(err) {
		return nil, fmt.Errorf("read result of task %q: %w", id, err)
	}
	if exists.Val() == 0 || hash.Err() != nil {
		return nil, fmt.Errorf("result of task %q: %w", id, queue.ErrNotFound)
	}
	field := func(i int) string { s, _ := hash.Val()[i].(string); return s }
	switch status := queue.Status(field(0)); status {
	case queue.StatusCompleted:
		if result.Err() != nil {
			return nil, fmt.Errorf("result of task %q: %w", id, queue.ErrExpired)
		}
		return json.RawMessage(result.Val()), nil
	case queue.StatusFailed, queue.StatusFailedPermanent, queue.StatusCancelled:
		e := &queue.FailedError{Status: status, Code: field(2), Message: field(1)}
		if failure.Err() == nil {
			e.Document = failureOf(e, []byte(failure.Val()))
		}
		return nil, e
	}
	return nil, fmt.Errorf("result of task %q: %w", id, queue.ErrNotFinished)
}

// failureOf makes the newest failure document that of the task's end. It is
// from an earlier attempt when the worker died of the last one, the deadline
// passed or somebody cancelled.
func failureOf(e *queue.FailedError, document []byte) json.RawMessage {
	var parts map[string]json.RawMessage
	var told struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(document, &parts) != nil || json.Unmarshal(parts["error"], &told) != nil || told.Code == e.Code || e.Code == "" {
		return document
	}
	parts["error"] = json.RawMessage(mustJSON(map[string]any{"code": e.Code, "message": e.Message, "retryable": false}))
	fixed, err := json.Marshal(parts)
	if err != nil {
		return document
	}
	return fixed
}

// Failure returns the newest failure document. See queue.Producer.
func (b *Backend) Failure(ctx context.Context, id string) (json.RawMessage, error) {
	return b.document(ctx, "failure", id, b.key.failure(id))
}

// Progress returns the newest progress event. See queue.Producer.
func (b *Backend) Progress(ctx context.Context, id string) (json.RawMessage, error) {
	return b.document(ctx, "progress", id, b.key.progress(id))
}

func (b *Backend) document(ctx context.Context, what, id, key string) (json.RawMessage, error) {
	s, err := b.rdb.Get(ctx, key).Bytes()
	switch {
	case errors.Is(err, redis.Nil), wrongType(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s of task %q: %w", what, id, err)
	}
	return s, nil
}

// tasks reads the listed fields of many tasks. Ids without a hash are left out.
func (b *Backend) tasks(ctx context.Context, ids []string) ([]queue.Task, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	pipe := b.rdb.Pipeline()
	cmds := make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		cmds[i] = pipe.HMGet(ctx, b.key.task(id), listFields...)
	}
	if _, err := pipe.Exec(ctx); err != nil && !wrongType(err) {
		return nil, fmt.Errorf("read %d tasks: %w", len(ids), err)
	}
	out := make([]queue.Task, 0, len(ids))
	for i, c := range cmds {
		if c.Err() != nil {
			continue // wrong type: not a task
		}
		h := map[string]string{}
		for k, v := range c.Val() {
			if s, ok := v.(string); ok {
				h[listFields[k]] = s
			}
		}
		if len(h) > 0 {
			out = append(out, b.decodeTask(ids[i], h))
		}
	}
	return out, nil
}

// byPriority orders ids: most urgent first, then oldest first. Tasks without
// a hash come last.
func (b *Backend) byPriority(ctx context.Context, ids []string) ([]string, error) {
	rank := map[string]int{}
	age := map[string]float64{}
	for start := 0; start < len(ids); start += 500 {
		part := ids[start:min(start+500, len(ids))]
		pipe := b.rdb.Pipeline()
		cmds := make([]*redis.SliceCmd, len(part))
		for i, id := range part {
			cmds[i] = pipe.HMGet(ctx, b.key.task(id), "priority", "created_at")
		}
		if _, err := pipe.Exec(ctx); err != nil && !wrongType(err) {
			return nil, err
		}
		for i, c := range cmds {
			rank[part[i]] = len(queue.Priorities)
			if c.Err() != nil {
				continue
			}
			word, _ := c.Val()[0].(string)
			created, _ := c.Val()[1].(string)
			age[part[i]] = float64(parseSeconds(created).UnixMilli())
			p, err := queue.ParsePriority(word)
			if err != nil {
				p = queue.PriorityNormal
			}
			for n, q := range queue.Priorities {
				if p == q {
					rank[part[i]] = n
				}
			}
		}
	}
	sortBy(ids, func(a, c string) bool {
		if rank[a] != rank[c] {
			return rank[a] < rank[c]
		}
		if age[a] != age[c] {
			return age[a] < age[c]
		}
		return a < c
	})
	return ids, nil
}

func wrongType(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE")
}
