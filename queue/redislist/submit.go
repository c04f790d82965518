package redislist

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/queue"
)

const (
	submitBatch = 200     // tasks in one script call
	submitBytes = 2 << 20 // payload bytes in one script call
)

// Submit stores one task. See queue.Producer.
func (b *Backend) Submit(ctx context.Context, s queue.Submission) (queue.Receipt, error) {
	r, err := b.SubmitAll(ctx, []queue.Submission{s})
	if err != nil {
		return queue.Receipt{}, err
	}
	return r[0], r[0].Err
}

// SubmitAll stores many tasks, a few hundred in one call. A batch is stored
// whole or not at all; after an error the earlier batches stay. See
// queue.Producer.
func (b *Backend) SubmitAll(ctx context.Context, all []queue.Submission) ([]queue.Receipt, error) {
	out := make([]queue.Receipt, len(all))
	size := min(len(all), submitBatch)
	next := b.newSubmitCall(size)
	// The next call is put together while the server works on the last.
	var flight chan error
	land := func() error {
		if flight == nil {
			return nil
		}
		err := <-flight
		flight = nil
		return err
	}
	for i := range all {
		s := &all[i]
		if err := s.Validate(); err != nil {
			out[i].Err = err
			continue
		}
		out[i].ID = s.ID
		if s.ID == "" {
			out[i].ID = uuid.NewString()
		}
		out[i].Queue = b.add(next, i, out[i].ID, s)
		if len(next.index) < submitBatch && next.bytes < submitBytes {
			continue
		}
		if err := land(); err != nil {
			return nil, err
		}
		sent, answer := next, make(chan error, 1)
		flight = answer
		go func() { answer <- b.submit(ctx, sent, all, out) }()
		next = b.newSubmitCall(min(len(all)-i-1, submitBatch))
	}
	if err := land(); err != nil {
		return nil, err
	}
	if err := b.submit(ctx, next, all, out); err != nil {
		return nil, err
	}
	return out, nil
}

// submitCall is one call of submit.lua.
type submitCall struct {
	index []int // of the submissions
	keys  []string
	args  []any
	queue string // of the last submission
	bytes int    // of the payloads
}

func (b *Backend) newSubmitCall(size int) *submitCall {
	const fixed, perTask = 5, 10
	c := &submitCall{
		index: make([]int, 0, size), keys: make([]string, 0, fixed+1+size), args: make([]any, 0, perTask*size),
	}
	c.keys = append(c.keys, b.key.queues(), b.key.delayed(), b.key.registered(), b.key.cordoned(), b.key.inboxes())
	return c
}

// add takes a submission into a call and returns its queue.
func (b *Backend) add(c *submitCall, i int, id string, s *queue.Submission) string {
	var name string
	c.args, name = b.submitArgs(c.args, id, s)
	c.index = append(c.index, i)
	c.keys = append(c.keys, b.key.task(id))
	if name != c.queue { // else it is among the keys
		c.keys = append(c.keys, b.key.queue(name))
		c.queue = name
	}
	if s.UniqueKey != "" {
		c.keys = append(c.keys, b.key.unique(s.UniqueKey))
	}
	if s.Worker != "" {
		c.keys = append(c.keys, b.key.inbox(s.Worker))
	}
	c.bytes += len(s.Payload)
	return name
}

// submit makes a call and enters its answers into the receipts.
func (b *Backend) submit(ctx context.Context, c *submitCall, all []queue.Submission, out []queue.Receipt) error {
	if len(c.index) == 0 {
		return nil
	}
	cmd, short := b.runDurable(ctx, scripts.submit, c.keys, c.args...)
	v, err := cmd.Slice()
	if err == nil && (len(v)%3 != 1 || v[0] != int64(len(c.index))) {
		err = fmt.Errorf("the script answered %.100v", v)
	}
	var refused []string
	if err == nil {
		refused, err = words(v[1:])
	}
	if err != nil {
		return fmt.Errorf("submit %d tasks: %w", len(c.index), err)
	}
	for _, i := range c.index {
		out[i].Status = queue.StatusQueued
		if short != nil {
			out[i].Err = fmt.Errorf("submit task %q: %w", out[i].ID, short)
		}
	}
	for r := range slices.Chunk(refused, 3) {
		k, err := strconv.Atoi(r[0])
		if err != nil || k < 0 || k >= len(c.index) {
			return fmt.Errorf("submit %d tasks: the script refused number %q", len(c.index), r[0])
		}
		i := c.index[k]
		out[i].Status = ""
		switch r[1] {
		case "worker":
			out[i].Err = &queue.InvalidError{Field: "worker", Rule: fmt.Sprintf("no worker %q is registered", all[i].Worker)}
		case "exists":
			out[i].Err = fmt.Errorf("submit task %q: %w", out[i].ID, queue.ErrExists)
		default:
			out[i].Err = &queue.DuplicateError{Key: all[i].UniqueKey, ID: r[2]}
		}
	}
	return nil
}

// submitArgs appends one task as submit.lua takes it, and returns its queue too.
func (b *Backend) submitArgs(args []any, id string, s *queue.Submission) ([]any, string) {
	p, _ := queue.ParsePriority(string(s.Priority)) // Validate has seen it
	name := s.Queue
	if name == "" {
		name = queue.TypeQueue(p, s.Type)
	}
	payload := s.Payload
	if len(payload) == 0 {
		payload = json.RawMessage("{}")
	}
	retries := b.o.MaxRetries
	if s.MaxRetries != nil {
		retries = *s.MaxRetries
	}
	var f []any
	add := func(k, v string) {
		if v != "" {
			f = append(f, k, v)
		}
	}
	if s.Timeout > 0 {
		add("timeout", strconv.FormatFloat(s.Timeout.Seconds(), 'f', -1, 64))
	}
	if !s.Deadline.IsZero() {
		add("deadline", formatSeconds(s.Deadline))
	}
	if s.ResultTTL > 0 {
		add("result_ttl", strconv.Itoa(int(max(s.ResultTTL, time.Second).Seconds())))
	}
	if len(s.Exclude) > 0 {
		add("exclude", mustJSON(s.Exclude))
	}
	if len(s.Labels) > 0 {
		add("labels", mustJSON(s.Labels))
	}
	add("unique_key", s.UniqueKey)
	add("trace", s.Trace)
	due := ""
	switch {
	case s.Delay > 0:
		due = "+" + strconv.FormatInt(s.Delay.Milliseconds(), 10)
	case s.Delay == 0 && !s.RunAt.IsZero():
		due = strconv.FormatInt(s.RunAt.UnixMilli(), 10)
	}
	args = append(args, id, name, due, s.UniqueKey, s.Worker, s.Type, []byte(payload), string(p), strconv.Itoa(retries), len(f))
	return append(args, f...), name
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, lists and maps of strings only
	}
	return string(b)
}

// Retry queues an ended task again. See queue.Producer.
func (b *Backend) Retry(ctx context.Context, id string) error {
	k := b.key
	keys := []string{k.task(id), k.queues(), k.failure(id), k.progress(id), k.delayed(), k.completed(), k.failed(), k.cancelled()}
	return b.operate(ctx, "retry", id, scripts.retry, keys, id)
}

// Delete removes a task. See queue.Producer.
func (b *Backend) Delete(ctx context.Context, id string) error {
	k := b.key
	keys := []string{k.task(id), k.result(id), k.failure(id), k.progress(id), k.delayed(), k.queues(), k.inboxes(), k.completed(),
		k.failed(), k.cancelled()}
	return b.operate(ctx, "delete", id, scripts.del, keys, id)
}

// searchReach is how far into each end of a queue a task is looked for that
// gets another priority: a few milliseconds.
const searchReach = 100_000

// Reprioritise moves a waiting task. See queue.Producer. In a queue of more
// than 200,000 tasks only the 100,000 at each end can be moved; for those in
// between it refuses with ErrConflict.
func (b *Backend) Reprioritise(ctx context.Context, id string, p queue.Priority) error {
	if _, err := queue.ParsePriority(string(p)); err != nil || p == "" {
		return &queue.InvalidError{Field: "priority", Rule: "must be critical, high, normal or low"}
	}
	keys := []string{b.key.task(id), b.key.queues(), b.key.delayed()}
	return b.operate(ctx, "reprioritise", id, scripts.reprioritise, keys, id, string(p), searchReach)
}

// Cancel ends a waiting task or asks the owner of a running one to stop. See
// queue.Producer.
func (b *Backend) Cancel(ctx context.Context, id, by string) (queue.Status, error) {
	if by == "" {
		by = "an operator"
	}
	keys := []string{b.key.task(id), b.key.delayed(), b.key.queues(), b.key.inboxes(), b.key.cancelled()}
	reply, err := b.run(ctx, scripts.cancel, keys, id, by).StringSlice()
	if err != nil {
		return "", fmt.Errorf("cancel task %q: %w", id, err)
	}
	switch reply[0] {
	case "cancelled":
		return queue.StatusCancelled, nil
	case "running":
		return queue.StatusRunning, nil
	}
	return "", refusal("cancel", id, reply)
}

func (b *Backend) operate(ctx context.Context, verb, id string, s *redis.Script, keys []string, args ...any) error {
	reply, err := b.run(ctx, s, keys, args...).StringSlice()
	if err != nil {
		return fmt.Errorf("%s task %q: %w", verb, id, err)
	}
	if reply[0] == "ok" {
		return nil
	}
	return refusal(verb, id, reply)
}

// refusal turns the answer of an operator's move into an error.
func refusal(verb, id string, reply []string) error {
	switch reply[0] {
	case "missing":
		return fmt.Errorf("%s task %q: %w", verb, id, queue.ErrNotFound)
	case "far":
		return fmt.Errorf("%s task %q: its queue holds %s tasks and it is not among the %d next to either end (wait until the queue is shorter, or cancel it and submit it again): %w",
			verb, id, reply[1], searchReach, queue.ErrConflict)
	case "unique":
		return fmt.Errorf("%s task %q: %w", verb, id, &queue.DuplicateError{Key: "of the task", ID: reply[1]})
	}
	return fmt.Errorf("%s task %q: it is %s: %w", verb, id, reply[1], queue.ErrConflict)
}
