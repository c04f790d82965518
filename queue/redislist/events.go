package redislist

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/queue"
)

// Watch streams events. See queue.Producer.
func (b *Backend) Watch(ctx context.Context, task string) (<-chan queue.Event, error) {
	channel := b.key.allEvents()
	if task != "" {
		channel = b.key.events(task)
	}
	ps := b.rdb.Subscribe(ctx, channel)
	// The subscription has to stand before the caller reads the state that it
	// compares events with.
	if _, err := ps.Receive(ctx); err != nil {
		_ = ps.Close()
		return nil, err
	}
	out := make(chan queue.Event, 256)
	go func() {
		defer close(out)
		first := true
		follow(ctx, ps, func(m *redis.Message) bool {
			first = false
			var e queue.Event
			if json.Unmarshal([]byte(m.Payload), &e) != nil {
				return true // not one of ours
			}
			return send(ctx, out, e)
		}, func() bool {
			if first {
				first = false
				return true
			}
			return send(ctx, out, queue.Event{Kind: queue.EventGap, Task: task})
		})
	}()
	return out, nil
}

// follow reads a subscription until ctx is done or a callback returns false.
// subscribed is called when the subscription has been made anew.
func follow(ctx context.Context, ps *redis.PubSub, message func(*redis.Message) bool, subscribed func() bool) {
	stop := context.AfterFunc(ctx, func() { _ = ps.Close() }) // ends a blocked read
	defer func() {
		stop()
		_ = ps.Close()
	}()
	wait := 100 * time.Millisecond
	for ctx.Err() == nil {
		v, err := ps.ReceiveTimeout(ctx, 15*time.Second)
		if err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				// Silence is normal; a ping finds out whether the connection is half-open.
				if ps.Ping(ctx) == nil {
					continue
				}
			}
			if !sleep(ctx, wait) {
				return
			}
			wait = min(2*wait, 2*time.Second)
			continue
		}
		wait = 100 * time.Millisecond
		switch m := v.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" && !subscribed() {
				return
			}
		case *redis.Message:
			if !message(m) {
				return
			}
		}
	}
}

func send[T any](ctx context.Context, out chan<- T, v T) bool {
	select {
	case out <- v:
		return true
	case <-ctx.Done():
		return false
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
