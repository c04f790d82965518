//go:build unix

package redistest

import (
	"fmt"
	"strconv"
)

// An Option changes how a server is started.
type Option func(*Server)

// WithAOF makes the server write an append-only file, so that data survives
// Stop, Kill and Restart. Without it a restarted server is empty.
func WithAOF() Option { return WithConfig("appendonly", "yes") }

// WithPassword makes the server require password (of the default user).
func WithPassword(password string) Option {
	return func(s *Server) {
		s.password = password
		s.config = append(s.config, setting{"requirepass", strconv.Quote(password)})
	}
}

// WithConfig sets one line of redis.conf, for example ("maxmemory", "10mb").
// The value may hold several words, as in the file. Later lines win.
func WithConfig(key, value string) Option {
	return func(s *Server) { s.config = append(s.config, setting{key, value}) }
}

// WithUnixSocket makes the server listen on a Unix socket as well. Its path is
// Server.Socket.
func WithUnixSocket() Option {
	return func(s *Server) { s.wantSocket = true }
}

// WithCluster makes the server a Redis Cluster of one node that has all slots.
func WithCluster() Option {
	return func(s *Server) {
		s.cluster = true
		s.config = append(s.config, setting{"cluster-enabled", "yes"})
	}
}

// AsSentinel makes the server a Sentinel that watches master under name and
// decides alone. It declares a master dead after half a second.
func AsSentinel(name string, master *Server) Option { return AsSentinelOf(name, master, 1) }

// AsSentinelOf is AsSentinel for one of several, of which so many have to agree.
func AsSentinelOf(name string, master *Server, agree int) Option {
	return func(s *Server) {
		s.sentinel = true
		s.config = append(s.config,
			setting{"sentinel", fmt.Sprintf("monitor %s 127.0.0.1 %d %d", name, master.port, agree)},
			setting{"sentinel", "down-after-milliseconds " + name + " 500"},
			setting{"sentinel", "failover-timeout " + name + " 5000"})
		if master.password != "" {
			s.config = append(s.config, setting{"sentinel", "auth-pass " + name + " " + strconv.Quote(master.password)})
		}
	}
}

// WithReplicaOf makes the server a replica of master.
func WithReplicaOf(master *Server) Option {
	return WithConfig("replicaof", fmt.Sprintf("127.0.0.1 %d", master.port))
}

// setting is one line of redis.conf.
type setting struct{ key, value string }
