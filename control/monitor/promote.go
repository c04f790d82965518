package monitor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

const (
	promoteChunk   = 100                    // ids moved by one script
	promoteMax     = 500 * time.Millisecond // longest sleep
	promoteSpacing = 10 * time.Millisecond  // between two promotions, when woken
)

// promoteStep moves what is due and sleeps until the next task is. It is
// woken when an earlier one is added (watchLoop).
func (m *Monitor) promoteStep(ctx context.Context) (time.Duration, error) {
	if _, leads := m.lead.lease(); !leads {
		return promoteMax, nil
	}
	// Spaced, so that a flood of delayed submissions is no flood of promotions.
	if since := time.Since(m.lastPromote); since < promoteSpacing && !pauseFor(ctx, promoteSpacing-since, nil) {
		return 0, ctx.Err()
	}
	m.lastPromote = time.Now()
	m.earliest.Store(0)
	for {
		callCtx, cancel := context.WithTimeout(ctx, callTimeout)
		moved, next, err := m.backend().Promote(callCtx, promoteChunk)
		cancel()
		if err != nil {
			return 0, err
		}
		if moved >= promoteChunk {
			continue // more may be due
		}
		if next <= 0 {
			return promoteMax, nil
		}
		return min(max(next, time.Millisecond), promoteMax), nil
	}
}

// watchLoop follows the queue's events to wake the promotion when a task is
// delayed to an earlier moment than any before it.
func (m *Monitor) watchLoop(ctx context.Context) error {
	pause := m.faults.backoff()
	for {
		events, err := m.backend().Watch(ctx, "")
		if err == nil {
			m.faults.ok("watch")
			for e := range events {
				pause.Reset()
				m.hear(e)
			}
		} else {
			m.faults.report("watch", err)
		}
		if !pauseFor(ctx, pause.Next(), nil) {
			return nil
		}
	}
}

// hear looks at one event.
func (m *Monitor) hear(e queue.Event) {
	if e.Kind == queue.EventGap {
		nudge(m.wakePromote)
		return
	}
	if e.Kind != queue.EventState || e.Status != queue.StatusQueued || len(e.Data) == 0 {
		return
	}
	var d struct {
		Until int64 `json:"delayed_until_ms"`
	}
	if json.Unmarshal(e.Data, &d) != nil || d.Until <= 0 {
		return
	}
	if known := m.earliest.Load(); known != 0 && known <= d.Until {
		return
	}
	m.earliest.Store(d.Until)
	nudge(m.wakePromote)
}
