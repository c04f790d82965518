package queuetest

import (
	"context"
	"testing"

	"github.com/autobot-fleet/autobot/queue"
)

// Open returns an empty backend for one test, with three retries, a first
// back-off of no time, and no delay after a worker's death.
type Open func(t *testing.T) queue.Backend

// Exercise runs the whole suite. Each test opens a backend of its own and runs
// in parallel with the others.
func Exercise(t *testing.T, open Open) {
	for _, group := range [][]test{producerTests, workerTests, settleTests, operatorTests, monitorTests} {
		for _, tt := range group {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				b := open(t)
				ctx, cancel := context.WithCancel(context.Background())
				t.Cleanup(cancel) // before what open cleans up
				tt.run(&world{t: t, b: b, ctx: ctx})
			})
		}
	}
}

// A test's name is the promise it checks.
type test struct {
	name string
	run  func(w *world)
}
