package store

import (
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

func TestLeader(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	for _, prefix := range []string{"", "{x}:"} {
		none, err := New(rdb, prefix).Leader(t.Context())
		if err != nil || none.Holder != "" {
			t.Fatalf("prefix %q: nobody leads, got %+v, %v", prefix, none, err)
		}
		epoch, _, err := redislist.New(rdb, redislist.Options{Prefix: prefix}).Lead(t.Context(), "a", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		got, err := New(rdb, prefix).Leader(t.Context())
		if err != nil || got.Holder != "a" || got.Epoch != epoch || got.Left <= 0 || got.Left > time.Minute {
			t.Errorf("prefix %q: got %+v, %v; want a in epoch %d", prefix, got, err, epoch)
		}
	}
}
