//go:build unix

package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// slots is the number of slots of every Redis Cluster.
const slots = 16384

// StartCluster runs a Redis Cluster: as many masters, which share the slots
// evenly and in order, and replicas as asked for. The first replica is that of
// the first master, and so on. opts apply to every node. A master that does not
// answer for a second is replaced by its replica. It returns when every node
// takes commands.
func StartCluster(t testing.TB, masters, replicas int, opts ...Option) []*Server {
	t.Helper()
	nodes := make([]*Server, masters+replicas)
	for i := range nodes {
		nodes[i] = Start(t, append([]Option{
			WithConfig("cluster-enabled", "yes"), WithConfig("cluster-port", strconv.Itoa(Port(t))),
			WithConfig("cluster-node-timeout", "1000"), WithConfig("cluster-replica-validity-factor", "0"),
			// A cluster without its third part goes on with the others.
			WithConfig("cluster-require-full-coverage", "no"),
		}, opts...)...)
	}
	c := &clusterSetup{t: t, ctx: context.Background()}
	for i, n := range nodes {
		rdb := n.Client(t)
		c.clients = append(c.clients, rdb)
		c.must(rdb.ConfigGet(c.ctx, "cluster-port").Err())
		if i < masters {
			c.must(rdb.ClusterAddSlotsRange(c.ctx, i*slots/masters, (i+1)*slots/masters-1).Err())
		}
		// Epochs that differ from the start need not be agreed on.
		c.must(rdb.Do(c.ctx, "cluster", "set-config-epoch", i+1).Err())
	}
	for _, n := range nodes[1:] {
		bus := c.clients[0]
		port, err := n.Client(t).ConfigGet(c.ctx, "cluster-port").Result()
		c.must(err)
		c.must(bus.Do(c.ctx, "cluster", "meet", "127.0.0.1", n.port, port["cluster-port"]).Err())
	}
	for i := range nodes {
		c.await(i, "knows all nodes", func(info string) bool {
			return strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", len(nodes)))
		})
	}
	for i := range replicas {
		id, err := c.clients[i].ClusterMyID(c.ctx).Result()
		c.must(err)
		follower := masters + i
		c.await(follower, "follows its master", func(string) bool {
			return c.clients[follower].ClusterReplicate(c.ctx, id).Err() == nil
		})
	}
	for i := range nodes {
		c.await(i, "takes commands", func(info string) bool {
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d\r", slots))
		})
	}
	return nodes
}

type clusterSetup struct {
	t       testing.TB
	ctx     context.Context //nolint:containedctx // of one function
	clients []*redis.Client
}

func (c *clusterSetup) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("set up the test cluster: %v", err)
	}
}

// await polls a node until ok.
func (c *clusterSetup) await(node int, what string, ok func(info string) bool) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		info, err := c.clients[node].ClusterInfo(c.ctx).Result()
		c.must(err)
		if ok(info) {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("waited %v until node %d of the test cluster %s:\n%s", patience, node, what, info)
		}
		<-tick.C
	}
}

// ClusterURL is the address of the nodes as a redis+cluster:// URL.
func ClusterURL(nodes []*Server) string {
	hosts := make([]string, len(nodes))
	for i, n := range nodes {
		hosts[i] = n.Addr()
	}
	return "redis+cluster://" + strings.Join(hosts, ",")
}
