package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
)

// bullmqSide is one process of Node.js with a worker of so many slots.
var bullmqSide = side{
	name: "BullMQ", fill: fillBullMQ, start: startBullMQ, share: 0.5,
	done: func(ctx context.Context, b *bench) (int64, error) {
		return b.redis.rdb.ZCard(ctx, "bull:bench:completed").Result()
	},
}

// bullmq returns Node.js and the program, which lies beside the module.
func bullmq() (node, script string, err error) {
	if node, err = exec.LookPath("node"); err != nil {
		return "", "", fmt.Errorf("BullMQ needs Node.js: %w (install it: apt-get install nodejs npm)", err)
	}
	script, err = installed("BullMQ", filepath.Join("queues-node", "bullmq.mjs"))
	return node, script, err
}

func startBullMQ(_ context.Context, b *bench, w work) (*child, error) {
	node, script, err := bullmq()
	if err != nil {
		return nil, err
	}
	return startChild(b.dir, nil, node, script, "work", strconv.Itoa(b.redis.port), strconv.Itoa(w.slots), strconv.FormatInt(w.sleep.Milliseconds(), 10))
}

func fillBullMQ(ctx context.Context, b *bench, w work) error {
	node, script, err := bullmq()
	if err != nil {
		return err
	}
	_, err = output(ctx, b.dir, nil, node, script, "fill", strconv.Itoa(b.redis.port), strconv.Itoa(w.tasks), strconv.Itoa(w.payload))
	return err
}

// submitBullMQ returns submissions per second.
func submitBullMQ(ctx context.Context, b *bench, w work, bulk int) (float64, error) {
	node, script, err := bullmq()
	if err != nil {
		return 0, err
	}
	return rate(output(ctx, b.dir, nil, node, script, "submit", strconv.Itoa(b.redis.port), strconv.Itoa(w.tasks), strconv.Itoa(w.payload), strconv.Itoa(bulk)))
}
