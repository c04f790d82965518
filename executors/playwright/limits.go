package playwright

import (
	"errors"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

const (
	// maxPatience is what the calls of a task that it does not depend on may
	// wait for its pages, all together. A busy machine is slow to answer; a page
	// that is busy for good holds the task up for as long.
	maxPatience = 8 * time.Second
	// countWait is the part of it for the count of what a selector matches.
	countWait = 3 * time.Second
	// grace is what a step may take beyond its limit for its driver to say so.
	grace = 10 * time.Second
	// reserve is kept of the task's time for telling its result.
	reserve = 2 * time.Second
)

// limit is the time of a step in milliseconds, as the library takes it.
func (r *run) limit(s step) *float64 {
	ms := float64(s.common().TimeoutMS)
	if ms == 0 {
		ms = float64(r.plan.StepTimeoutMS)
	}
	return &ms
}

func (r *run) navLimit() float64 { return float64(r.plan.NavTimeoutMS) }

// bounded runs a call that has no time limit of its own, or not a reliable
// one. When the step's time is over the context is closed: nothing else ends a
// script that never does.
func (r *run) bounded(s step, call func() error) error {
	ms := *r.limit(s)
	// The library's own limit, where there is one, comes first and hurts less.
	limit := time.Duration(ms)*time.Millisecond + 500*time.Millisecond
	why := r.tooLong(s, ms)
	timer := time.AfterFunc(limit, func() { r.abort(why) })
	defer timer.Stop()
	return call()
}

// guard ends the run when a step's limit is long over. The driver keeps the
// limits, but a page can keep the driver busy.
func (r *run) guard(s step) (stop func()) {
	ms := *r.limit(s)
	switch s := s.(type) {
	case *navigateStep, *historyStep, *tabStep:
		ms = r.navLimit()
	case *waitStep:
		ms = max(ms, float64(s.MS))
	case *downloadStep, *extractStep: // as long as the file takes; a limit for each field
		return func() {}
	}
	why := r.tooLong(s, ms)
	timer := time.AfterFunc(time.Duration(ms)*time.Millisecond+grace, func() { r.abort(why) })
	return func() { timer.Stop() }
}

// tooLong is the error of a step that only the end of its page has ended.
func (r *run) tooLong(s step, ms float64) error {
	return executors.Errorf(executors.CodeDeadlineExceeded, "%s: %s did not end within %.0f ms, the page was closed (raise step_timeout_ms)", r.where(), r.actionOf(s), ms)
}

// late reports whether the time of the step that runs is over.
func (r *run) late(s step) bool {
	return float64(time.Since(r.began).Milliseconds()) >= *r.limit(s)
}

// within runs a call that the task does not depend on, for at most limit and
// what is left of the task's patience. When it takes longer it is left to end
// with the context.
func (r *run) within(limit time.Duration, call func() error) error {
	limit = min(limit, r.patience)
	if end, ok := r.ctx.Deadline(); ok {
		left := time.Until(end)
		limit = min(limit, max(left-reserve, left/2))
	}
	if limit <= 0 {
		return errPageBusy
	}
	begin := time.Now()
	defer func() { r.patience -= time.Since(begin) }()
	done := make(chan error, 1)
	r.surface.later(func() { done <- call() })
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errPageBusy
	case <-r.over:
		return errSurfaceClosed
	}
}

var errPageBusy = errors.New("the page does not answer")
