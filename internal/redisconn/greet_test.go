package redisconn

import (
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/internal/redistest"
)

func TestServersThatAreNotWhatTheAddressSays(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.Start(t, redistest.WithReplicaOf(master))
	stale := redistest.Start(t, redistest.AsSentinel("mymaster", replica)) // names a replica
	node := redistest.Start(t, redistest.WithCluster())
	for _, tt := range []struct {
		name   string
		cfg    Config
		want   string
		reason string
		wait   bool
	}{
		{"a Sentinel, taken for the server", Config{URL: stale.URL()}, "is a Sentinel, not the server", ReasonClusterMode, false},
		{"a node of a cluster, taken for the server", Config{URL: node.URL()}, "is a node of a Redis Cluster", ReasonClusterMode, false},
		{"the server, taken for a cluster", Config{URL: "redis+cluster://" + master.Addr(), Prefix: "{a}"}, "is no node of a Redis Cluster", ReasonClusterMode, false},
		{"a replica that a Sentinel takes for the master", Config{URL: "redis+sentinel://" + stale.Addr() + "/mymaster"}, "a failover is going on", ReasonReadonly, true},
	} {
		m, _ := newManager(t, tt.cfg)
		err := client(t, m, Main).Ping(t.Context()).Err()
		if err == nil || !strings.Contains(err.Error(), tt.want) || Reason(err) != tt.reason || IsWait(err) != tt.wait || !Away(err) || Misfit(err) == tt.wait {
			t.Errorf("%s: %v (%s, wait %v), want %q", tt.name, err, Reason(err), IsWait(err), tt.want)
		}
	}
}

func TestReplicasMayBeRead(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.Start(t, redistest.WithReplicaOf(master))
	m, _ := newManager(t, Config{URL: replica.URL()})
	if err := client(t, m, Main).Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	if err := m.Writable(t.Context()); Reason(err) != ReasonReadonly {
		t.Errorf("a replica takes writes: %v", err)
	}
	own, _ := newManager(t, Config{URL: master.URL()})
	if err := own.Writable(t.Context()); err != nil {
		t.Error(err)
	}
}

// Each reason has a sentence and a repair of its own.
func TestEachReasonHasItsSentence(t *testing.T) {
	t.Parallel()
	said := map[string]string{}
	for reason, text := range sentences {
		if other, twice := said[text]; twice || text == "" {
			t.Errorf("%s and %s are both %q", reason, other, text)
		}
		said[text] = reason
	}
	general := Repair(nil, "h:1")
	for _, r := range replies {
		err := replyError(r.prefix + " x")
		if r.class.reason != ReasonOther && Repair(err, "h:1") == general {
			t.Errorf("%s has no repair", r.class.reason)
		}
		if !strings.HasPrefix(Told(err).Error(), Explain(err)+": ") || Reason(Told(err)) != r.class.reason {
			t.Errorf("%v is told as %v", err, Told(err))
		}
	}
	err := replyError("WRONGTYPE x")
	if told := Told(err); told == nil || told.Error() != err.Error() || Told(nil) != nil {
		t.Error("what is no fault of the server is changed")
	}
}
