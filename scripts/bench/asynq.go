package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
)

// asynqType is the type of asynq's tasks, in its default queue.
const asynqType = "bench"

// asynqSide is asynq as its documentation sets it up. A result is stored when
// the handler writes one and the task is kept.
var asynqSide = side{
	name: "asynq", fill: fillAsynq, done: doneAsynq,
	start: func(_ context.Context, b *bench, w work) (*child, error) { return startWorker(b, "asynq", w) },
}

func fillAsynq(ctx context.Context, b *bench, w work) error {
	c := asynq.NewClient(asynq.RedisClientOpt{Addr: b.redis.addr()})
	defer func() { _ = c.Close() }()
	// It has no call for many tasks: some goroutines shorten the wait.
	const writers = 8
	failed := make(chan error, writers)
	for i := range writers {
		go func() {
			var err error
			for n := i; n < w.tasks && err == nil; n += writers {
				err = enqueueAsynq(ctx, c, w.payload)
			}
			failed <- err
		}()
	}
	var err error
	for range writers {
		if e := <-failed; e != nil {
			err = fmt.Errorf("enqueue: %w", e)
		}
	}
	return err
}

func enqueueAsynq(ctx context.Context, c *asynq.Client, bytes int) error {
	_, err := c.EnqueueContext(ctx, asynq.NewTask(asynqType, body(bytes)), asynq.Retention(24*time.Hour))
	return err
}

func doneAsynq(ctx context.Context, b *bench) (int64, error) {
	return b.redis.rdb.ZCard(ctx, "asynq:{default}:completed").Result()
}

// runAsynq works until ctx is done.
func runAsynq(ctx context.Context, w workerFlags) error {
	srv := asynq.NewServer(asynq.RedisClientOpt{Addr: w.addr}, asynq.Config{Concurrency: w.slots, LogLevel: asynq.WarnLevel})
	mux := asynq.NewServeMux()
	mux.HandleFunc(asynqType, func(ctx context.Context, t *asynq.Task) error {
		out, err := w.act(ctx)
		if err != nil {
			return err
		}
		_, err = t.ResultWriter().Write(out)
		return err
	})
	if err := srv.Start(mux); err != nil {
		return err
	}
	<-ctx.Done()
	srv.Shutdown()
	return nil
}
