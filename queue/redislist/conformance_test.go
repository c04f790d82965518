package redislist_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/internal/leaktest"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/queuetest"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestConformance(t *testing.T) {
	t.Run("redis", func(t *testing.T) {
		srv := redistest.Start(t)
		watchKeys(t, srv).all = true
		queuetest.Exercise(t, opener(srv.Addr()))
	})
	t.Run("cluster", func(t *testing.T) { // the keys of a script have to be in one slot
		queuetest.Exercise(t, opener(redistest.Start(t, redistest.WithCluster()).Addr()))
	})
	t.Run("miniredis", func(t *testing.T) {
		queuetest.Exercise(t, opener(redistest.StartMini(t)))
	})
}

var spaces atomic.Int64

// opener gives each test a key space of its own on one server.
func opener(addr string) queuetest.Open {
	return func(t *testing.T) queue.Backend {
		rdb := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
		t.Cleanup(func() { _ = rdb.Close() })
		return redislist.New(rdb, redislist.Options{Prefix: fmt.Sprintf("{s%d}:", spaces.Add(1)), RetryBackoff: -1})
	}
}
