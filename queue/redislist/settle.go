package redislist

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/queue"
)

const maxErrorText = 4 << 10

// Finish records successes and claims again. See queue.WorkerSide.
func (b *Backend) Finish(ctx context.Context, worker string, o []queue.Outcome, next *queue.ClaimRequest) ([]queue.Settled, queue.ClaimReply, error) {
	var reply queue.ClaimReply
	var claim []byte
	if next != nil {
		if len(o) == 0 {
			reply, err := b.Claim(ctx, *next)
			return nil, reply, err
		}
		var err error
		if claim, err = b.encodeClaim(*next, next.Queues); err != nil {
			return nil, reply, err
		}
	}
	settled := make([]queue.Settled, 0, len(o))
	var claimErr error
	err := inBatches(len(o), func(from, to int) (int, error) {
		part := o[from:to]
		part = part[:fitting(len(part), func(i int) int { return len(part[i].Result) })]
		last := from+len(part) == len(o) && next != nil
		keys := append([]string{b.key.tasks(worker), b.key.completed(), b.key.queues()},
			b.key.held(fences(part), func(q string) []string { return []string{b.key.processing(q)} })...)
		args := make([]any, 0, 3+4*len(part))
		args = append(args, worker, seconds(b.o.ResultTTL), "")
		for _, x := range part {
			keys = append(keys, b.key.result(x.ID))
			args = append(args, x.ID, attempt(x.Fence), x.Queue, []byte(x.Result))
		}
		if last {
			args[2] = claim
			keys = append(keys, b.key.sweeps(next.WorkerID, next.Queues)...)
		}
		cmd, short := b.runDurable(ctx, scripts.finish, keys, args...)
		if short != nil {
			b.o.Unreplicated(fmt.Errorf("finish %d tasks: %w", len(part), short))
		}
		v, err := cmd.Slice()
		if err != nil {
			return 0, fmt.Errorf("finish %d tasks of worker %q: %w", len(part), worker, err)
		}
		if len(v) != 2 {
			return 0, fmt.Errorf("finish script answered %d values, want 2", len(v))
		}
		answers, err := decodeSettled(v[0])
		if err != nil {
			return 0, err
		}
		settled = append(settled, answers...)
		if last && len(answers) == len(part) {
			reply, claimErr = b.claimOfFinish(ctx, v[1], *next)
		}
		return len(answers), nil
	})
	if err != nil {
		return nil, queue.ClaimReply{}, err
	}
	return settled, reply, claimErr
}

// claimOfFinish reads the claim that a finish script made after its outcomes.
func (b *Backend) claimOfFinish(ctx context.Context, v any, next queue.ClaimRequest) (queue.ClaimReply, error) {
	parts, ok := v.([]any)
	if !ok {
		return queue.ClaimReply{}, fmt.Errorf("finish script answered %T for its claim", v)
	}
	reply, more, err := b.decodeClaimReply(parts)
	if err != nil || !more {
		return reply, err
	}
	return b.claimOn(ctx, next, reply), nil
}

func fences(o []queue.Outcome) []queue.Fence {
	out := make([]queue.Fence, len(o))
	for i, x := range o {
		out[i] = x.Fence
	}
	return out
}

// Fail records failed attempts. See queue.WorkerSide.
func (b *Backend) Fail(ctx context.Context, worker string, o []queue.Outcome) ([]queue.Settled, error) {
	settled := make([]queue.Settled, 0, len(o))
	for _, x := range o {
		if x.Failure == nil {
			return nil, fmt.Errorf("fail task %q: no failure given", x.ID)
		}
	}
	err := inBatches(len(o), func(from, to int) (int, error) {
		part := o[from:to]
		part = part[:fitting(len(part), func(i int) int { return len(part[i].Failure.Document) })]
		keys := append(append([]string{b.key.tasks(worker)}, b.key.ends()...), b.key.held(fences(part), b.key.both)...)
		args := make([]any, 0, 6+8*len(part))
		args = append(args, worker, seconds(b.o.ResultTTL), b.o.MaxRetries, b.o.RetryBackoff.Milliseconds(),
			b.o.RetryBackoffMax.Milliseconds(), rand.Int32())
		for _, x := range part {
			f := x.Failure
			doc := f.Document
			if len(doc) == 0 {
				doc = []byte("{}")
			}
			keys = append(keys, b.key.failure(x.ID))
			args = append(args, x.ID, attempt(x.Fence), x.Queue, cleanText(f.Message), f.Code, []byte(doc), failFlags(f), delayMillis(f.Delay))
		}
		answers, err := b.settle(ctx, scripts.fail, keys, args)
		if err != nil {
			return 0, fmt.Errorf("fail %d tasks of worker %q: %w", len(part), worker, err)
		}
		settled = append(settled, answers...)
		return len(answers), nil
	})
	if err != nil {
		return nil, err
	}
	return settled, nil
}

// settle runs a script that answers outcomes, or the first of them.
func (b *Backend) settle(ctx context.Context, s *redis.Script, keys []string, args []any) ([]queue.Settled, error) {
	v, err := b.run(ctx, s, keys, args...).Slice()
	if err != nil {
		return nil, err
	}
	return decodeSettled(v)
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
	settled := make([]queue.Settled, 0, len(f))
	err := inBatches(len(f), func(from, to int) (int, error) {
		part := f[from:to]
		keys := append(append([]string{b.key.tasks(worker)}, b.key.ends()...), b.key.held(part, b.key.both)...)
		args := make([]any, 0, 1+3*len(part))
		args = append(args, worker)
		for _, x := range part {
			args = append(args, x.ID, attempt(x), x.Queue)
		}
		answers, err := b.settle(ctx, scripts.release, keys, args)
		if err != nil {
			return 0, fmt.Errorf("release %d tasks of worker %q: %w", len(part), worker, err)
		}
		settled = append(settled, answers...)
		return len(answers), nil
	})
	if err != nil {
		return nil, err
	}
	return settled, nil
}

// ReportProgress stores and publishes progress. See queue.WorkerSide.
func (b *Backend) ReportProgress(ctx context.Context, worker string, p []queue.ProgressUpdate) error {
	return inBatches(len(p), func(from, to int) (int, error) {
		part := p[from:to]
		part = part[:fitting(len(part), func(i int) int { return len(part[i].JSON) })]
		keys := make([]string, 0, 2*len(part))
		args := make([]any, 0, 2+3*len(part))
		args = append(args, worker, seconds(b.o.ProgressTTL))
		for _, x := range part {
			keys = append(keys, b.key.task(x.ID), b.key.progress(x.ID))
			args = append(args, x.ID, attempt(x.Fence), []byte(x.JSON))
		}
		if err := b.run(ctx, scripts.progress, keys, args...).Err(); err != nil {
			return 0, fmt.Errorf("report progress of %d tasks: %w", len(part), err)
		}
		return len(part), nil
	})
}

func decodeSettled(v any) ([]queue.Settled, error) {
	w, err := words(v)
	if err != nil {
		return nil, err
	}
	out := make([]queue.Settled, len(w))
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
