package redislist_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

func TestWaitForReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	rdb := master.Client(t)
	replica := redistest.Start(t, redistest.WithReplicaOf(master))
	copied := replica.Client(t)
	for rdb.Do(t.Context(), "wait", 1, 1000).Val() != int64(1) {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
	var told []error
	b := redislist.New(rdb, redislist.Options{WaitReplicas: 1, WaitTimeout: 20 * time.Second, Unreplicated: func(err error) { told = append(told, err) }})
	hasty := redislist.New(rdb, redislist.Options{WaitReplicas: 2, WaitTimeout: 50 * time.Millisecond, Unreplicated: func(err error) { told = append(told, err) }})
	g, err := b.Register(t.Context(), queue.Registration{WorkerID: "w", NodeID: "n", HeartbeatTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	request := queue.ClaimRequest{WorkerID: "w", Generation: g, Queues: []string{"normal:general"}, Types: map[string]int{"general": 0}, Free: []int{1}, Max: 1}
	submit := func(b *redislist.Backend, id string) error {
		_, err := b.Submit(t.Context(), queue.Submission{ID: id, Type: "general"})
		return err
	}
	finish := func(b *redislist.Backend, f queue.Fence) {
		t.Helper()
		s, _, err := b.Finish(t.Context(), "w", []queue.Outcome{{Fence: f, Result: json.RawMessage(`{}`)}}, &request)
		if err != nil || s[0] != queue.SettledOK {
			t.Fatalf("%v, %v", s, err)
		}
	}
	claim := func() queue.Fence {
		t.Helper()
		r, err := b.Claim(t.Context(), queue.ClaimRequest{WorkerID: "w", Generation: g, Queues: request.Queues, Types: request.Types, Free: []int{1}, Max: 1})
		if err != nil || len(r.Claims) != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		return r.Claims[0].Fence()
	}

	t.Run("what was confirmed is on the replica", func(t *testing.T) {
		for i := range 20 {
			id := fmt.Sprintf("t%d", i)
			if err := submit(b, id); err != nil {
				t.Fatal(err)
			}
			if s := copied.HGet(t.Context(), "task:"+id, "status").Val(); s != "queued" {
				t.Fatalf("submitted, and on the replica it is %q", s)
			}
			finish(b, claim())
			if s := copied.HGet(t.Context(), "task:"+id, "status").Val(); s != "completed" {
				t.Fatalf("finished, and on the replica it is %q", s)
			}
			if r := copied.Get(t.Context(), "task:"+id+":result").Val(); r != "{}" {
				t.Fatalf("result on the replica: %q", r)
			}
		}
		if len(told) > 0 {
			t.Fatal(told)
		}
	})
	t.Run("a task that too few confirm is stored and the producer is told", func(t *testing.T) {
		if err := submit(hasty, "few"); !errors.Is(err, queue.ErrUnreplicated) {
			t.Fatal(err)
		}
		if err := submit(hasty, "few"); !errors.Is(err, queue.ErrExists) {
			t.Fatal(err)
		}
		finish(hasty, claim())
		if len(told) != 1 || !errors.Is(told[0], queue.ErrUnreplicated) {
			t.Fatal(told)
		}
	})
	t.Run("a refusal stays a refusal", func(t *testing.T) {
		if err := rdb.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
			t.Fatal(err)
		}
		err := submit(b, "full")
		if err := rdb.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
			t.Fatal(err)
		}
		if !redis.HasErrorPrefix(err, "OOM") || errors.Is(err, queue.ErrUnreplicated) {
			t.Fatal(err)
		}
	})
	t.Run("a server that has lost the scripts gets them again", func(t *testing.T) {
		if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if err := submit(b, "flushed"); err != nil {
			t.Fatal(err)
		}
	})
}
