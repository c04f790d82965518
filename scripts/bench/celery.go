package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// celerySide is one Celery worker with so many threads. Its usual pool of
// processes is no quicker at this work and would need 200 of them.
var celerySide = side{
	name: "Celery", fill: fillCelery, start: startCelery, done: doneCelery, share: 0.05,
}

func celery() (python string, err error) {
	return installed("Celery", filepath.Join("queues-venv", "bin", "python"))
}

func celeryEnv(b *bench, w work) []string {
	return []string{
		"BENCH_PORT=" + strconv.Itoa(b.redis.port), fmt.Sprintf("BENCH_SLEEP=%g", w.sleep.Seconds()),
		"PYTHONPATH=" + b.peerSources(), "PYTHONDONTWRITEBYTECODE=1", "C_FORCE_ROOT=1",
	}
}

func (b *bench) peerSources() string { return filepath.Join(b.root, "scripts", "bench", "peers") }

func startCelery(_ context.Context, b *bench, w work) (*child, error) {
	python, err := celery()
	if err != nil {
		return nil, err
	}
	return startChild(b.dir, celeryEnv(b, w), python, "-m", "celery", "-A", "celery_bench", "worker", "--loglevel", "WARNING",
		"--pool", "threads", "--concurrency", strconv.Itoa(w.slots), "--without-gossip", "--without-mingle")
}

func fillCelery(ctx context.Context, b *bench, w work) error {
	_, err := submitCelery(ctx, b, w, "fill")
	return err
}

func submitCelery(ctx context.Context, b *bench, w work, what string) (string, error) {
	python, err := celery()
	if err != nil {
		return "", err
	}
	return output(ctx, b.dir, celeryEnv(b, w), python, filepath.Join(b.peerSources(), "celery_bench.py"), what,
		strconv.Itoa(w.tasks), strconv.Itoa(w.payload))
}

// doneCelery counts the results, which are alone in database 1.
func doneCelery(ctx context.Context, b *bench) (n int64, err error) {
	var size *redis.IntCmd
	_, err = b.redis.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Do(ctx, "select", 1)
		size = p.DBSize(ctx)
		p.Do(ctx, "select", 0)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return size.Result()
}
