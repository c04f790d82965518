package redisconn

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// oldest is the oldest version that has every command our scripts use.
const (
	oldestMajor = 6
	oldestMinor = 2
)

// unfit says that a server cannot be used as it is, or not now.
type unfit struct {
	reason string
	wait   bool // it passes by itself
	text   string
}

func (u *unfit) Error() string { return u.text }

func notCluster(node string) error {
	return &unfit{reason: ReasonClusterMode, text: fmt.Sprintf(
		"%s is no node of a Redis Cluster, but redis.cluster or redis+cluster:// says so", node)}
}

// greet names a new connection, which helps whoever looks at CLIENT LIST, and
// asks the server what it is. An error closes the connection. A server that
// does not allow either is no less useful.
func (m *Manager) greet(ctx context.Context, conn *redis.Conn, name string) (sentinel bool, err error) {
	pipe := conn.Pipeline()
	naming := pipe.ClientSetName(ctx, name)
	hello := pipe.Do(ctx, "hello")
	if _, err := pipe.Exec(ctx); err != nil && naming.Err() != nil && classify(naming.Err()).server {
		return false, naming.Err()
	}
	if hello.Err() != nil {
		if classify(hello.Err()).server {
			return false, hello.Err()
		}
		return m.address.mode == sentinelMode && isSentinel(ctx, conn), nil
	}
	about := pairs(hello.Val())
	if about["mode"] == "sentinel" {
		return true, m.checkSentinel()
	}
	return false, m.checkServer(about)
}

// checkSentinel refuses a Sentinel that was taken for the server.
func (m *Manager) checkSentinel() error {
	if m.address.mode == sentinelMode {
		return nil
	}
	return &unfit{reason: ReasonClusterMode, text: fmt.Sprintf(
		"%s is a Sentinel, not the server: write redis.url as redis+sentinel://HOST:PORT/MASTER", m.Address())}
}

// checkServer judges the reply to HELLO.
func (m *Manager) checkServer(about map[string]string) error {
	switch {
	case about["server"] == "redis" && older(about["version"], oldestMajor, oldestMinor):
		return &unfit{reason: ReasonVersion, text: fmt.Sprintf(
			"Redis at %s has version %s; the oldest that is supported is %d.%d", m.Address(), about["version"], oldestMajor, oldestMinor)}
	case about["mode"] == "cluster" && m.address.mode != clusterMode:
		return &unfit{reason: ReasonClusterMode, text: fmt.Sprintf(
			"%s is a node of a Redis Cluster: set redis.cluster: true (or write redis.url as redis+cluster://) and redis.prefix with one hash tag, for example {autobot}:",
			m.Address())}
	case about["mode"] == "standalone" && m.address.mode == clusterMode:
		return notCluster(m.Address())
	case about["role"] == "replica" && m.address.mode == sentinelMode:
		// A Sentinel that was cut off names the master that was.
		return &unfit{reason: ReasonReadonly, wait: true, text: "the Sentinels name a server that is a replica: a failover is going on"}
	}
	return nil
}

// pairs reads a reply of names and values, in RESP2 or RESP3.
func pairs(reply any) map[string]string {
	out := map[string]string{}
	switch r := reply.(type) {
	case map[any]any:
		for k, v := range r {
			out[fmt.Sprint(k)] = fmt.Sprint(v)
		}
	case []any:
		for i := 0; i+1 < len(r); i += 2 {
			out[fmt.Sprint(r[i])] = fmt.Sprint(r[i+1])
		}
	}
	return out
}

// isSentinel reports whether the other end is a Sentinel: go-redis calls the
// same function for those.
func isSentinel(ctx context.Context, conn *redis.Conn) bool {
	role, err := conn.Do(ctx, "role").Slice()
	return err == nil && len(role) > 0 && role[0] == "sentinel"
}
