package redismodes

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
)

// Three Sentinels, two of which have to agree, replace a master that dies under
// load. What it had not passed on yet is lost; a producer that checks on its
// tasks hands those in again.
func TestSentinelFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.Start(t, redistest.WithReplicaOf(master))
	awaitReplica(t, replica)
	var watchers []*redistest.Server
	var addresses []string
	for range 3 {
		s := redistest.Start(t, redistest.AsSentinelOf("fleet", master, 2))
		watchers, addresses = append(watchers, s), append(addresses, s.Addr())
	}
	for _, s := range watchers {
		awaitSentinel(t, s)
	}
	c := access{URL: "redis+sentinel://" + strings.Join(addresses, ",") + "/fleet"}
	f := startFleet(t, c, c, c)
	tasks := work("t", 150)
	f.submit(tasks)
	f.awaitStarts(30)
	master.Kill()

	more := work("more", 50)
	f.submit(more) // waits for the new master
	tasks = append(tasks, more...)
	f.awaitCompleted(tasks)
	f.awaitReady()
	f.check(tasks)
	if got := replica.Client(t).LLen(context.Background(), "queue:normal:ledger:processing").Val(); got != 0 {
		t.Errorf("%d tasks are in progress on the new master", got)
	}
	if role := replicationOf(t, replica, "role"); role != "master" {
		t.Errorf("the new master is %s", role)
	}
	for who, result := range f.doctors() {
		if !strings.Contains(result.Stdout, "answers in") && !strings.Contains(result.Stdout, "version 7") {
			t.Errorf("%s: the doctor says:\n%s%s", who, result.Stdout, result.Stderr)
		}
	}
	f.stop()
}

// awaitSentinel waits until a Sentinel knows the two others and the replica.
func awaitSentinel(t *testing.T, s *redistest.Server) {
	t.Helper()
	rdb := redis.NewSentinelClient(&redis.Options{Addr: s.Addr()})
	defer func() { _ = rdb.Close() }()
	e2e.Await(t, "the sentinel knows everybody", func() bool {
		others, err := rdb.Sentinels(context.Background(), "fleet").Result()
		if err != nil || len(others) != 2 {
			return false
		}
		replicas, err := rdb.Replicas(context.Background(), "fleet").Result()
		return err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok"
	})
}
