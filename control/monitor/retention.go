package monitor

import (
	"context"
	"fmt"
	"time"
)

const (
	expireChunk = 100                   // tasks deleted by one script
	expireRest  = 20 * time.Millisecond // between chunks: retention never crowds out claims
	expirePause = time.Minute           // when nothing is left to delete
)

// retentionStep deletes one chunk of ended tasks that are past their retention.
func (m *Monitor) retentionStep(ctx context.Context) (time.Duration, error) {
	lease, leads := m.lead.lease()
	if !leads {
		return expirePause, nil
	}
	callCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	deleted, err := m.backend().Expire(callCtx, lease, expireChunk)
	if err != nil {
		return 0, fmt.Errorf("delete tasks past their retention: %w", err)
	}
	m.gauges.expired.Add(float64(deleted))
	if deleted >= expireChunk {
		return expireRest, nil
	}
	return expirePause, nil
}
