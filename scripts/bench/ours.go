package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// taskType is the type of our tasks; those of normal priority wait in
// taskQueue.
const (
	taskType  = "bench"
	taskQueue = "normal:" + taskType
)

// oursSide is one agent process with the executor in the same process.
var oursSide = side{
	name: "autobot", fill: fillOurs, done: doneOurs,
	start: func(_ context.Context, b *bench, w work) (*child, error) { return startWorker(b, "autobot", w) },
}

func fillOurs(ctx context.Context, b *bench, w work) error { return submitTo(ctx, b.redis.rdb, w) }

// submitTo submits the tasks of w, a thousand per call.
func submitTo(ctx context.Context, rdb redis.UniversalClient, w work) error {
	q := redislist.New(rdb, redislist.Options{})
	all := make([]queue.Submission, 1000)
	for i := range all {
		all[i] = queue.Submission{Type: taskType, Payload: body(w.payload)}
	}
	for left := w.tasks; left > 0; left -= len(all) {
		receipts, err := q.SubmitAll(ctx, all[:min(left, len(all))])
		if err != nil {
			return err
		}
		for _, r := range receipts {
			if r.Err != nil {
				return fmt.Errorf("submit: %w", r.Err)
			}
		}
	}
	return nil
}

func doneOurs(ctx context.Context, b *bench) (int64, error) {
	return b.redis.rdb.ZCard(ctx, "autobot:completed").Result()
}
