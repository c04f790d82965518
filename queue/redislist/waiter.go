package redislist

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/queue"
)

// waiter blocks on one queue with BRPOPLPUSH on a connection of its own. The
// id of that connection is read when it is made, so that another connection
// can end the block.
type waiter struct {
	b        *Backend
	name     string
	conn     redis.UniversalClient
	clientID atomic.Int64 // 0: not connected, or the server tells no ids
	refused  atomic.Bool  // the server tells no ids
}

// NewWaiter returns a waiter for the queue. See queue.WorkerSide.
func (b *Backend) NewWaiter(name string) (queue.Waiter, error) {
	w := &waiter{b: b, name: name}
	dial := b.o.Dial
	if dial == nil {
		dial = b.dialAlone
	}
	conn, err := dial(w.connected)
	if err != nil {
		return nil, fmt.Errorf("open a connection to wait for queue %q: %w", name, err)
	}
	w.conn = conn
	return w, nil
}

func (w *waiter) connected(ctx context.Context, c *redis.Conn) error {
	w.clientID.Store(0)
	id, err := c.ClientID(ctx).Result()
	w.refused.Store(err != nil)
	if err != nil {
		// Not offered or not allowed: the block cannot be ended early, which
		// Unblock says. A broken connection shows in the pop itself.
		return nil
	}
	w.clientID.Store(id)
	return nil
}

// Wait blocks for the next id. See queue.Waiter.
//
// The command is sent once: a repeated one could move a second id that nobody
// waits for. ctx only guards the time before it is sent.
func (w *waiter) Wait(ctx context.Context, block time.Duration) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if block < time.Second {
		block = time.Second // 0 would be for ever
	}
	id, err := w.conn.BRPopLPush(context.WithoutCancel(ctx), w.b.key.queue(w.name), w.b.key.processing(w.name), block).Result()
	switch {
	case err == nil:
		return id, nil
	case errors.Is(err, redis.Nil):
		return "", nil
	case wrongType(err):
		return "", fmt.Errorf("wait for queue %q: %w", w.name, queue.ErrNotList)
	}
	return "", fmt.Errorf("wait for queue %q: %w", w.name, err)
}

// Unblock ends the current Wait. See queue.Waiter.
func (w *waiter) Unblock(ctx context.Context) (bool, error) {
	id := w.clientID.Load()
	if id == 0 {
		if w.refused.Load() {
			return false, queue.ErrUnblockRefused
		}
		return false, nil
	}
	// CLIENT UNBLOCK of a client whose pop was put off by CLIENT PAUSE (as in
	// a planned failover) makes some servers abort (seen with Redis 7.0.15;
	// redis#14164). A transaction with a write is put off by the same pause, so
	// it never runs while a pop can be in that state.
	var reply *redis.IntCmd
	_, err := w.b.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Unlink(ctx, w.b.key.own("nothing"))
		reply = p.ClientUnblock(ctx, id)
		return nil
	})
	n := reply.Val()
	if err != nil {
		var refused redis.Error
		if errors.As(err, &refused) {
			return false, fmt.Errorf("%w: %w", queue.ErrUnblockRefused, err)
		}
		return false, fmt.Errorf("end the wait for queue %q: %w", w.name, err)
	}
	return n == 1, nil
}

// Close drops the connection. See queue.Waiter.
func (w *waiter) Close() error { return w.conn.Close() }

// dialAlone opens a client with one connection like the backend's own client.
func (b *Backend) dialAlone(onConnect func(context.Context, *redis.Conn) error) (redis.UniversalClient, error) {
	c, ok := b.rdb.(*redis.Client)
	if !ok {
		return nil, fmt.Errorf("no way to open a connection beside a %T: set Options.Dial", b.rdb)
	}
	o := *c.Options()
	o.PoolSize, o.MinIdleConns, o.MaxRetries = 1, 0, -1
	inner := o.OnConnect
	o.OnConnect = func(ctx context.Context, cn *redis.Conn) error {
		if inner != nil {
			if err := inner(ctx, cn); err != nil {
				return err
			}
		}
		return onConnect(ctx, cn)
	}
	return redis.NewClient(&o), nil
}
