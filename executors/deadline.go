package executors

import (
	"bytes"
	"encoding/json"
	"time"
)

// minTimeout is the shortest timeout_ms that a payload may ask for.
const minTimeout = 100 * time.Millisecond

// EffectiveDeadline is when an executor ends task: the earliest of the task's
// deadline, timeout_ms of the payload and the type's maximum. Without any, the
// type's default applies. The zero time means never. budget is the time from
// now on, at least 1 ns, or 0 without a deadline.
func EffectiveDeadline(task Task, typ TypeDescription, now time.Time) (deadline time.Time, budget time.Duration) {
	deadline = task.Deadline
	earlier := func(d time.Duration) {
		if at := now.Add(d); d > 0 && (deadline.IsZero() || at.Before(deadline)) {
			deadline = at
		}
	}
	if bytes.Contains(task.Payload, []byte(`"timeout_ms"`)) {
		var p struct {
			TimeoutMS float64 `json:"timeout_ms"`
		}
		if json.Unmarshal(task.Payload, &p) == nil && p.TimeoutMS > 0 && p.TimeoutMS < 1e12 {
			earlier(max(minTimeout, time.Duration(p.TimeoutMS)*time.Millisecond))
		}
	}
	if deadline.IsZero() {
		earlier(typ.DefaultTimeout)
	}
	earlier(typ.MaxTimeout)
	if deadline.IsZero() {
		return deadline, 0
	}
	return deadline, max(deadline.Sub(now), time.Nanosecond)
}
