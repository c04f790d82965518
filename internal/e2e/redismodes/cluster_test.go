package redismodes

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/queuetest"
)

// The hash tag is in slot 1110, which the first of three masters has.
const (
	clusterPrefix = "{autobot}:"
	ownerNode     = 0
)

// All keys are in one slot. When its node dies under load, its replica takes
// over, and so do the programs, which know it only from the others.
func TestClusterOfThreeMasters(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, 1)
	c := access{URL: redistest.ClusterURL(nodes[:3]), Prefix: clusterPrefix}
	f := startFleet(t, c, c, c)
	tasks := work("t", 120)
	f.submit(tasks)
	f.awaitCompleted(tasks)
	f.check(tasks)
	for i, n := range nodes[:3] {
		keys := n.Client(t).DBSize(context.Background()).Val()
		if (keys > 0) != (i == ownerNode) {
			t.Errorf("node %d has %d keys", i, keys)
		}
	}

	// The death of a worker is seen, which takes facts of the right node.
	long := work("long", 12)
	for i := range long {
		long[i].Payload = []byte(`{"op":"sleep","ms":3000}`)
	}
	begun := f.starts("")
	f.submit(long)
	f.awaitStarts(begun + len(long))
	f.agents[0].Signal(syscall.SIGKILL)
	f.agents[0].Wait()
	e2e.Await(t, "the death is in the failover log", func() bool {
		events, err := f.q.FailoverLog(context.Background(), 10)
		return err == nil && len(events) == 1 && events[0].WorkerID == "one"
	})
	f.awaitCompleted(long)
	f.agents[0].Start()
	f.agents[0].AwaitClaiming()

	tasks = work("u", 120)
	begun = f.starts("")
	f.submit(tasks)
	f.awaitStarts(begun + 10)
	nodes[ownerNode].Kill()
	more := work("more", 30)
	f.submit(more) // waits for the new master
	tasks = append(tasks, more...)
	f.awaitCompleted(tasks)
	f.awaitReady()
	f.check(tasks)
	for who, result := range f.doctors() {
		if !strings.Contains(result.Stdout, clusterPrefix) || !strings.Contains(result.Stdout, "cannot take part") {
			t.Errorf("%s: the doctor does not say what the prefix means:\n%s", who, result.Stdout)
		}
	}
	f.stop()
}

// Every move of the queue, on a cluster of several nodes.
func TestQueueOnThreeMasters(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, 0)
	var spaces atomic.Int64
	queuetest.Exercise(t, func(t *testing.T) queue.Backend {
		// The spaces are spread over the nodes.
		return openQueueNow(t, access{URL: redistest.ClusterURL(nodes[:1]), Prefix: fmt.Sprintf("{s%d}:", spaces.Add(1))})
	})
}

// Without a prefix, or taken for a single server, a cluster is refused when a
// program starts, with a sentence that names the setting; no task gets to fail.
func TestB39ClusterWithoutPrefixIsRefused(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, 0)
	for _, tt := range []struct {
		name string
		c    access
		want []string
	}{
		{"no prefix", access{URL: redistest.ClusterURL(nodes)}, []string{"redis.prefix", "one hash tag", "{autobot}:"}},
		{"a prefix without a tag", access{URL: redistest.ClusterURL(nodes), Prefix: "autobot:"}, []string{"redis.prefix", "one hash tag"}},
		{"taken for a single server", access{URL: nodes[0].URL()}, []string{"is a node of a Redis Cluster", "redis.cluster", "redis.prefix"}},
		{"taken for a single server, with a prefix", access{URL: nodes[2].URL(), Prefix: clusterPrefix}, []string{"is a node of a Redis Cluster", "redis.cluster"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for who, p := range startDoomed(t, tt.c) {
				if code := p.Wait(); code != exitBadConfig {
					t.Errorf("%s ended with %d, want %d", who, code, exitBadConfig)
				}
				for _, part := range tt.want {
					if !strings.Contains(p.Output(), part) {
						t.Errorf("%s does not say %q:\n%s", who, part, p.Output())
					}
				}
			}
		})
	}
	for i, n := range nodes {
		if keys := n.Client(t).DBSize(context.Background()).Val(); keys != 0 {
			t.Errorf("node %d has %d keys of programs that were refused", i, keys)
		}
	}
	single := redistest.Start(t)
	for who, p := range startDoomed(t, access{URL: "redis+cluster://" + single.Addr(), Prefix: clusterPrefix}) {
		if code := p.Wait(); code != exitBadConfig || !strings.Contains(p.Output(), "is no node of a Redis Cluster") {
			t.Errorf("%s, a single server taken for a cluster: %d\n%s", who, code, p.Output())
		}
	}
}
