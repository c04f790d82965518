package redisconn

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Writable reports why the server of the database main takes no writes at
// present: it is a replica, its memory is full, it cannot save. Nil means that
// it does. It changes nothing: it overwrites a key if that is there, which it
// never is.
func (m *Manager) Writable(ctx context.Context) error {
	rdb, err := m.Client(Main)
	if err != nil {
		return err
	}
	err = rdb.SetXX(ctx, m.cfg.Prefix+"autobot:nothing", "", 0).Err()
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	return fmt.Errorf("write to Redis at %s: %w", m.Address(), err)
}
