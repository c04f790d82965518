package redisconn

import (
	"net"
	"sync"
	"syscall"
	"time"
)

// connections are those that a Manager has open. When a server turns out to be
// the wrong one, or one that cannot serve now, they are closed, so that the
// next use of each asks again who the server is: a name, a Sentinel or a
// cluster may point elsewhere by then.
type connections struct {
	mu      sync.Mutex
	open    map[*tracked]time.Time // since when
	dropped time.Time
}

// settle is how long connections are spared after they were made or dropped: a
// server that refuses for long is not to be connected to all the time.
const settle = time.Second

// track notes a connection to addr until it is closed.
func (c *connections) track(conn net.Conn, addr string) net.Conn {
	t := &tracked{Conn: conn, of: c, addr: addr}
	c.mu.Lock()
	if c.open == nil {
		c.open = map[*tracked]time.Time{}
	}
	c.open[t] = time.Now()
	c.mu.Unlock()
	if raw, ok := conn.(syscall.Conn); ok {
		return &trackedRaw{tracked: t, raw: raw}
	}
	return t
}

// drop closes the connections, unless that was just done.
func (c *connections) drop() {
	now := time.Now()
	c.mu.Lock()
	if now.Sub(c.dropped) < settle {
		c.mu.Unlock()
		return
	}
	c.dropped = now
	var old []*tracked
	for t, since := range c.open {
		if now.Sub(since) >= settle {
			old = append(old, t)
		}
	}
	c.mu.Unlock()
	for _, t := range old {
		_ = t.Close() // whoever uses it learns so
	}
}

// leave closes the connections to all servers but one.
func (c *connections) leave(addr string) {
	c.mu.Lock()
	var old []*tracked
	for t := range c.open {
		if t.addr != addr {
			old = append(old, t)
		}
	}
	c.mu.Unlock()
	for _, t := range old {
		_ = t.Close() // whoever uses it learns so
	}
}

// tracked is an open connection.
type tracked struct {
	net.Conn
	of   *connections
	addr string // as it was dialed
}

// Close forgets the connection and closes it.
func (t *tracked) Close() error {
	t.of.mu.Lock()
	delete(t.of.open, t)
	t.of.mu.Unlock()
	return t.Conn.Close()
}

// trackedRaw is a tracked connection that a pool can look at before it hands it
// out again.
type trackedRaw struct {
	*tracked
	raw syscall.Conn
}

// SyscallConn implements syscall.Conn.
func (t *trackedRaw) SyscallConn() (syscall.RawConn, error) { return t.raw.SyscallConn() }
