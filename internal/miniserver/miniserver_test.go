package miniserver

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestKeysExpireByThemselves(t *testing.T) {
	t.Parallel()
	srv, err := Run("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })

	if err := rdb.Set(t.Context(), "short", "x", 300*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Set(t.Context(), "long", "x", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for rdb.Exists(t.Context(), "short").Val() == 1 {
		if time.Now().After(deadline) {
			t.Fatal("a key with 300 ms to live is still there after 30 s")
		}
	}
	if rdb.Exists(t.Context(), "long").Val() != 1 {
		t.Error("a key with an hour to live is gone")
	}
}

func TestCloseTwiceAndReuseOfTheAddress(t *testing.T) {
	t.Parallel()
	srv, err := Run("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(srv.Addr()); err == nil || !strings.Contains(err.Error(), srv.Addr()) {
		t.Errorf("a second server on the same address: error %v, want one that names it", err)
	}
	srv.Close()
	srv.Close()
}
