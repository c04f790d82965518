package redisconn

import (
	"testing"

	"github.com/autobot-fleet/autobot/internal/redistest"
)

func TestSlots(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{
		"123456789": 12739, "{123456789}:x": 12739, "a{123456789}b": 12739, "{autobot}:": 1110, "{}x": slotOf("{}x"), "": 0,
	} {
		if got := slotOf(name); got != want {
			t.Errorf("%q is in slot %d, want %d", name, got, want)
		}
	}
}

func TestAddressesOfNodesAreCompleted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ addr, via, want string }{
		{"10.0.0.1:7000", "10.0.0.2:7001", "10.0.0.1:7000"},
		{":7000", "10.0.0.2:7001", "10.0.0.2:7000"},
		{"?:7000", "10.0.0.2:7001", "10.0.0.2:7000"},
		{"127.0.0.1:7000", "10.0.0.2:7001", "10.0.0.2:7000"},
		{"127.0.0.1:7000", "localhost:7001", "127.0.0.1:7000"},
		{"10.0.0.1:0", "10.0.0.2:7001", "10.0.0.1:7001"},
		{"[::1]:7000", "10.0.0.2:7001", "10.0.0.2:7000"},
		{"nonsense", "10.0.0.2:7001", "nonsense"},
	} {
		if got := reachable(tt.addr, tt.via); got != tt.want {
			t.Errorf("%s by %s is %s, want %s", tt.addr, tt.via, got, tt.want)
		}
	}
}

// Commands with and without a key go to the node that has our slot, whichever
// node the configuration names, and a user who may not ask for the slots gets
// there too.
func TestAllGoesToTheNodeWithOurKeys(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, 0)
	ctx := t.Context()
	for _, n := range nodes {
		if err := n.Client(t).Do(ctx, "ACL", "SETUSER", "plain", "on", ">pw", "allkeys", "+@all", "-cluster").Err(); err != nil {
			t.Fatal(err)
		}
	}
	id := must(nodes[0].Client(t).Info(ctx, "server").Result())(t)
	want := map[string]string{}
	parseInfo(id, want)
	for _, n := range nodes {
		for _, user := range []string{"", "plain:pw@"} {
			m, _ := newManager(t, Config{URL: "redis+cluster://" + user + n.Addr(), Prefix: "{autobot}:"})
			f, err := m.Facts(ctx)
			if err != nil || f.RunID != want["run_id"] {
				t.Errorf("by %s as %q: facts of %s, %v", n.Addr(), user, f.RunID, err)
			}
			if err := guarded(t, m, Main).Incr(ctx, "{autobot}:n").Err(); err != nil {
				t.Errorf("by %s as %q: %v", n.Addr(), user, err)
			}
		}
	}
	if got := nodes[0].Client(t).Get(ctx, "{autobot}:n").Val(); got != "6" {
		t.Errorf("counted %s, want 6", got)
	}
}

// A slot that moves to another node is followed at the next attempt.
func TestSlotThatMovesIsFollowed(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, 0)
	ctx := t.Context()
	m, _ := newManager(t, Config{URL: redistest.ClusterURL(nodes[:1]), Prefix: "{autobot}:"})
	rdb := client(t, m, Main)
	own := must(m.Dedicated(Main, DedicatedOptions{}))(t)
	if err := rdb.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if err := own.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	id := must(nodes[1].Client(t).ClusterMyID(ctx).Result())(t)
	for _, n := range nodes {
		if err := n.Client(t).Do(ctx, "cluster", "setslot", slotOf("{autobot}:"), "node", id).Err(); err != nil {
			t.Fatal(err)
		}
	}
	err := rdb.Set(ctx, "{autobot}:k", "v", 0).Err()
	if !IsWait(err) || Reason(err) != ReasonClusterdown {
		t.Errorf("the first command after the move: %v", err)
	}
	awaitTrue(t, "the commands follow", func() bool { return rdb.Set(ctx, "{autobot}:k", "v", 0).Err() == nil })
	awaitTrue(t, "other connections follow", func() bool { return own.Get(ctx, "{autobot}:k").Val() == "v" })
	if got := nodes[1].Client(t).Get(ctx, "{autobot}:k").Val(); got != "v" {
		t.Errorf("the new node has %q", got)
	}
}
