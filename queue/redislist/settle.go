package redislist

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

const maxErrorText = 4 << 10

// Finish records successes and claims again. See queue.WorkerSide.
func (b *Backend) Finish(ctx context.Context, worker string, o []queue.Outcome, next *queue.ClaimRequest) ([]queue.Settled, queue.ClaimReply, error) {
	var claim []byte
	if next != nil {
		var err error
		if claim, err = b.encodeClaim(*next, next.Queues); err != nil {
			return nil, queue.ClaimReply{}, err
		}
	}
	args := make([]any, 0, 3+4*len(o))
	args = append(args, worker, seconds(b.o.ResultTTL), claim)
	for _, x := range o {
		args = append(args, x.ID, attempt(x.Fence), x.Queue, []byte(x.Result))
	}
	v, err := b.run(ctx, scripts.finish, []string{b.key.tasks(worker), b.key.completed()}, args...).Slice()
	if err != nil {
		return nil, queue.ClaimReply{}, fmt.Errorf("finish %d tasks of worker %q: %w", len(o), worker, err)
	}
	if len(v) != 2 {
		return nil, queue.ClaimReply{}, fmt.Errorf("finish script answered %d values, want 2", len(v))
	}
	settled, err := decodeSettled(v[0], len(o))
	if err != nil || next == nil {
		return settled, queue.ClaimReply{}, err
	}
	reply, ok := v[1].([]any)
	if !ok {
		return settled, queue.ClaimReply{}, fmt.Errorf("finish script answered %T for its claim", v[1])
	}
	r, err := b.decodeClaimReply(reply)
	return settled, r, err
}

// Fail records failed attempts. See queue.WorkerSide.
func (b *Backend) Fail(ctx context.Context, worker string, o []queue.Outcome) ([]queue.Settled, error) {
	args := make([]any, 0, 6+8*len(o))
	args = append(args, worker, seconds(b.o.ResultTTL), b.o.MaxRetries, b.o.RetryBackoff.Milliseconds(),
		b.o.RetryBackoffMax.Milliseconds(), rand.Int32())
	for _, x := range o {
		f := x.Failure
		if f == nil {
			return nil, fmt.Errorf("fail task %q: no failure given", x.ID)
		}
		doc := f.Document
		if len(doc) == 0 {
			doc = []byte("{}")
		}
		args = append(args, x.ID, attempt(x.Fence), x.Queue, cleanText(f.Message), f.Code, []byte(doc), failFlags(f), delayMillis(f.Delay))
	}
	v, err := b.run(ctx, scripts.fail, []string{b.key.tasks(worker), b.key.delayed()}, args...).Slice()
	if err != nil {
		return nil, fmt.Errorf("fail %d tasks of worker %q: %w", len(o), worker, err)
	}
	return decodeSettled(v, len(o))
}

func failFlags(f *queue.Failure) string {
	var s strings.Builder
	for _, x := range []struct {
		on   bool
		flag byte
	}{{f.Retryable, 'r'}, {f.Cancelled, 'c'}, {f.Crashed, 'x'}, {f.NoCount, 'n'}, {f.Poison, 'p'}, {f.Exclude, 'e'}} {
		if x.on {
			s.WriteByte(x.flag)
		}
	}
	return s.String()
}

func delayMillis(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

// Release hands claims back. See queue.WorkerSide.
func (b *Backend) Release(ctx context.Context, worker string, f []queue.Fence) ([]queue.Settled, error) {
	args := make([]any, 0, 1+3*len(f))
	args = append(args, worker)
	for _, x := range f {
		args = append(args, x.ID, attempt(x), x.Queue)
	}
	v, err := b.run(ctx, scripts.release, []string{b.key.tasks(worker)}, args...).Slice()
	if err != nil {
		return nil, fmt.Errorf("release %d tasks of worker %q: %w", len(f), worker, err)
	}
	return decodeSettled(v, len(f))
}

// ReportProgress stores and publishes progress. See queue.WorkerSide.
func (b *Backend) ReportProgress(ctx context.Context, worker string, p []queue.ProgressUpdate) error {
	args := make([]any, 0, 2+3*len(p))
	args = append(args, worker, seconds(b.o.ProgressTTL))
	for _, x := range p {
		args = append(args, x.ID, attempt(x.Fence), []byte(x.JSON))
	}
	if err := b.run(ctx, scripts.progress, []string{b.key.tasks(worker)}, args...).Err(); err != nil {
		return fmt.Errorf("report progress of %d tasks: %w", len(p), err)
	}
	return nil
}

func decodeSettled(v any, n int) ([]queue.Settled, error) {
	w, err := words(v)
	if err != nil {
		return nil, err
	}
	if len(w) != n {
		return nil, fmt.Errorf("script settled %d of %d outcomes", len(w), n)
	}
	out := make([]queue.Settled, n)
	for i, s := range w {
		out[i] = queue.Settled(s)
	}
	return out, nil
}

// attempt is the fence as the scripts compare it. A task that a foreign worker
// touched has no attempt; its field is missing and so is never equal.
func attempt(f queue.Fence) string { return strconv.FormatInt(f.Attempt, 10) }

// seconds is a TTL for SETEX, which takes whole seconds of at least one.
func seconds(d time.Duration) int64 { return max(int64(d/time.Second), 1) }

// cleanText makes an error text storable: valid UTF-8 without NUL, bounded.
func cleanText(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > maxErrorText {
		s = strings.ToValidUTF8(s[:maxErrorText-3], "") + "..."
	}
	return s
}
