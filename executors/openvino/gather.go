package openvino

import (
	"context"
	"time"
)

// How long an idle batcher waits for the rest of a crowd: until nobody has come
// for a moment, and not longer than the whole.
const (
	gatherQuiet = time.Millisecond
	gatherMost  = 5 * time.Millisecond
)

// gather waits for those who come together with the first one. Tasks that are
// submitted together arrive within a few milliseconds of each other, and an
// inference for the first alone would take the processors from the others on
// their way. Whether there is anybody to wait for is what the last inference
// tells: after one for a single task nothing is waited for, so that a task that
// comes alone loses nothing.
func (b *batcher) gather(ctx context.Context) {
	if !b.expectsMore() {
		return
	}
	most := time.NewTimer(gatherMost)
	defer most.Stop()
	quiet := time.NewTimer(gatherQuiet)
	defer quiet.Stop()
	for b.expectsMore() {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
			quiet.Reset(gatherQuiet)
		case <-quiet.C:
			return
		case <-most.C:
			return
		}
	}
}

// expectsMore reports whether the last inference was for several tasks and the
// next one has room.
func (b *batcher) expectsMore() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.crowd && len(b.waiting) < b.limit
}
