package host

import (
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/backoff"
)

// stableAfter is how long a process must live for the next restart to be
// prompt again.
const stableAfter = time.Minute

// slot keeps one process of the unit running until the unit ends.
func (u *unit) slot(i int) {
	pause := backoff.New(u.h.cfg.RestartMin, u.h.cfg.RestartMax)
	for u.mayStart(i) {
		began := time.Now()
		p, err := u.start(u.ctx, false)
		if err != nil {
			if u.ctx.Err() != nil {
				return
			}
			u.crashed(err.Error())
			u.judged()
			if !backoff.Sleep(u.ctx, pause.Next()) {
				return
			}
			continue
		}
		u.judged()
		p.supervise(u.ctx)
		u.h.mu.Lock()
		end, draining := p.end, u.draining
		u.endWhenIdle()
		u.h.mu.Unlock()
		if end.why == endStopped || draining {
			return
		}
		if end.why == endReplaced {
			u.log.Info("executor process killed on purpose; starting another", zap.Int("pid", p.pid))
			continue
		}
		u.crashed(end.text)
		if time.Since(began) > stableAfter {
			pause.Reset()
		}
		if !backoff.Sleep(u.ctx, pause.Next()) {
			return
		}
	}
}

// mayStart waits until the slot may start a process: the executor is not
// disabled, and only the first slot tries one that does not run. It returns
// false when the unit ends.
func (u *unit) mayStart(i int) bool {
	for {
		u.h.mu.Lock()
		wake := u.h.wake
		var wait time.Duration
		now := time.Now()
		switch {
		case u.draining:
			u.h.mu.Unlock()
			return false
		case u.crash.disabled(now):
			wait = u.crash.until.Sub(now)
		case i > 0 && !u.alive():
			wait = time.Hour // woken by notify
		default:
			u.h.notify() // it may be disabled no more
			u.h.mu.Unlock()
			return u.ctx.Err() == nil
		}
		u.h.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-u.ctx.Done():
			timer.Stop()
			return false
		case <-wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// alive reports whether a process that takes tasks runs. The lock must be held.
func (u *unit) alive() bool {
	for p := range u.procs {
		if !p.solo {
			return true
		}
	}
	return false
}
