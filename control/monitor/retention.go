package monitor

import (
	"context"
	"fmt"
	"time"
)

const (
	expireChunk = 100                   // tasks one script looks at
	expireRest  = 20 * time.Millisecond // between chunks: retention never crowds out claims
	expirePause = time.Minute           // when nothing is left to look at
)

// retentionStep looks at one chunk of ended tasks that are past their retention.
func (m *Monitor) retentionStep(ctx context.Context) (time.Duration, error) {
	lease, leads := m.lead.lease()
	if !leads {
		return expirePause, nil
	}
	callCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	deleted, more, err := m.backend().Expire(callCtx, lease, expireChunk)
	if err != nil {
		return 0, fmt.Errorf("delete tasks past their retention: %w", err)
	}
	m.gauges.expired.Add(float64(deleted))
	if more {
		return expireRest, nil
	}
	return expirePause, nil
}
