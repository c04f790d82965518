package dev

import (
	"context"
	"fmt"
	"time"
)

const (
	manyEnds  = 5               // of the agent within endWindow: it is given up
	endWindow = time.Minute     // in which ends of the agent are counted
	firstRest = time.Second / 2 // before the agent is started again; doubles with each end in the window
)

// keepAgent starts the agent again when it ends, as the service manager of a
// real worker does, until ctx is done. It ends the fleet through fail when the
// agent ends too often or cannot be started. Until it has returned, nobody else
// may use f.agent.
func (f *fleet) keepAgent(ctx context.Context, config string, p programs, fail context.CancelCauseFunc) {
	var ends []time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.agent.done:
		}
		if ctx.Err() != nil { // it ended because it was asked to
			return
		}
		ends = recentEnds(append(ends, time.Now()))
		death := f.agent.ending()
		if len(ends) >= manyEnds {
			fail(fmt.Errorf("the agent has ended %d times within a minute: %w", len(ends), death))
			return
		}
		f.say("The agent ended (%s) and is started again; its log: %s", death.how, death.log)
		select {
		case <-ctx.Done():
			return
		case <-time.After(restAfter(len(ends))):
		}
		next, err := startAgent(f.folder, p, config, true)
		if err != nil {
			fail(err)
			return
		}
		f.agent = next
		status, err := next.await(ctx, func(reason string) { f.say("  waiting for the agent: %s", reason) })
		switch {
		case err == nil:
			f.say("The agent is back: worker %s, http://%s/status", status.WorkerID, status.API)
		case ctx.Err() == nil && !next.ended():
			f.say("  %v", err) // it lives, and may come to work yet
		}
	}
}

// recentEnds drops the ends that are so long ago that they do not count.
func recentEnds(ends []time.Time) []time.Time {
	newest := ends[len(ends)-1]
	for newest.Sub(ends[0]) > endWindow {
		ends = ends[1:]
	}
	return ends
}

// restAfter is the pause after the nth end in the window.
func restAfter(n int) time.Duration { return firstRest << (n - 1) }
