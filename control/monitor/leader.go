package monitor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/queue"
)

// leadership holds and renews the lease on being the acting monitor. It gives
// the lead up on its own monotonic clock, counted from the moment the last
// confirmed renewal was sent and a tenth before the lease can expire, so two
// monitors never both believe that they lead.
type leadership struct {
	backend queue.MonitorSide
	id      string
	log     *zap.Logger
	faults  *faults
	settled func(leader bool) // called at each change, not under the lock
	ttl     func() time.Duration
	contact atomic.Bool // the server has answered once

	mu    sync.Mutex
	epoch int64
	until time.Time // zero: not the leader
}

// leaseTTL is the lifetime of the lease in the server.
func leaseTTL(checkInterval time.Duration) time.Duration {
	return max(3*time.Second, checkInterval/2)
}

// lease returns the proof of leadership, and whether it is held right now.
func (l *leadership) lease() (queue.Lease, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until.IsZero() || !time.Now().Before(l.until) {
		return queue.Lease{}, false
	}
	return queue.Lease{Holder: l.id, Epoch: l.epoch}, true
}

// run takes or renews the lease three times in its lifetime until ctx is
// done. It does not resign: the loops that act must have stopped first.
func (l *leadership) run(ctx context.Context) {
	pause := l.faults.backoff()
	for ctx.Err() == nil {
		ttl := l.ttl()
		wait := jitter(ttl / 3)
		if err := l.renew(ctx, ttl); err != nil {
			wait = min(wait, pause.Next())
		} else {
			pause.Reset()
		}
		l.sleep(ctx, wait)
	}
}

// renew makes one attempt. Its error has been reported.
func (l *leadership) renew(ctx context.Context, ttl time.Duration) error {
	callCtx, cancel := context.WithTimeout(ctx, ttl/2)
	defer cancel()
	sent := time.Now()
	epoch, leader, err := l.backend.Lead(callCtx, l.id, ttl)
	if err != nil {
		if ctx.Err() == nil {
			l.faults.report("leader", err)
		}
		return err
	}
	l.faults.writesWork()
	l.contact.Store(true)
	if leader {
		l.hold(epoch, sent.Add(ttl-ttl/10))
	} else {
		l.drop("another control plane leads")
	}
	return nil
}

// sleep waits, and notices in time when the lease runs out.
func (l *leadership) sleep(ctx context.Context, wait time.Duration) {
	l.mu.Lock()
	until := l.until
	l.mu.Unlock()
	if !until.IsZero() {
		wait = min(wait, time.Until(until))
	}
	if pauseFor(ctx, wait, l.faults.reached) && !until.IsZero() && !time.Now().Before(until) {
		l.drop("the lease could not be renewed in time")
	}
}

func (l *leadership) hold(epoch int64, until time.Time) {
	l.mu.Lock()
	gained := l.until.IsZero() || l.epoch != epoch
	l.epoch, l.until = epoch, until
	l.mu.Unlock()
	if gained {
		l.log.Info("this control plane leads now", zap.String("holder", l.id), zap.Int64("epoch", epoch))
		l.settled(true)
	}
}

// drop gives the lead up locally; it is a no-op for a standby.
func (l *leadership) drop(reason string) {
	l.mu.Lock()
	held, epoch := !l.until.IsZero(), l.epoch
	l.until = time.Time{}
	l.mu.Unlock()
	if held {
		l.log.Info("this control plane stands by now", zap.String("reason", reason), zap.Int64("epoch", epoch))
		l.settled(false)
	}
}

// denied is told when a move was refused for lack of leadership.
func (l *leadership) denied(err error) {
	if errors.Is(err, queue.ErrNotLeader) {
		l.drop("a newer epoch exists")
	}
}

// resign gives the lease up in the server, so that a standby need not wait
// for it to expire. ctx bounds the call.
func (l *leadership) resign(ctx context.Context) {
	if _, held := l.lease(); !held {
		return
	}
	if err := l.backend.Resign(ctx, l.id); err != nil {
		l.log.Warn("could not resign; a standby takes over when the lease expires", zap.Error(err))
	}
	l.drop("stopping")
}
