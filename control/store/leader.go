package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Leader says which control plane acts. An empty Holder means none.
type Leader struct {
	Holder string        `json:"holder"`
	Epoch  int64         `json:"epoch"`
	Left   time.Duration `json:"-"` // of its lease
}

// Leader reads who leads, without taking part.
func (s *Store) Leader(ctx context.Context) (Leader, error) {
	var l Leader
	rdb, lease, epoch := s.rdb, s.prefix+"autobot:leader", s.prefix+"autobot:epoch"
	var err error
	if l.Holder, err = rdb.Get(ctx, lease).Result(); err != nil && !errors.Is(err, redis.Nil) {
		return l, fmt.Errorf("read who leads: %w", err)
	}
	if l.Epoch, err = rdb.Get(ctx, epoch).Int64(); err != nil && !errors.Is(err, redis.Nil) {
		return l, fmt.Errorf("read the epoch of the leader: %w", err)
	}
	if l.Holder == "" {
		return l, nil
	}
	if l.Left, err = rdb.PTTL(ctx, lease).Result(); err != nil {
		return l, fmt.Errorf("read the leader's lease: %w", err)
	}
	return l, nil
}
