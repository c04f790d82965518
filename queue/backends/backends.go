// Package backends opens a queue layout by name. It is the only package that
// knows them all.
package backends

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// Layout names a way to keep tasks in Redis.
type Layout string

// List is the primary layout: one LIST per queue (queue/redislist). The empty
// name means the same.
const List Layout = "list"

// Options are the settings of a layout; see redislist.Options.
type Options = redislist.Options

// Open returns the layout on rdb, which stays the caller's to close.
func Open(l Layout, rdb redis.UniversalClient, o Options) (queue.Backend, error) {
	switch l {
	case "", List:
		return redislist.New(rdb, o), nil
	}
	return nil, fmt.Errorf("unknown queue layout %q (known: %s)", l, List)
}
