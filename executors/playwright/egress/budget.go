package egress

import (
	"errors"
	"net"
	"sync"
)

// errBudget ends a connection whose lane has spent its bytes or requests.
var errBudget = errors.New("the budget of the task is spent")

// countedConn is a connection to a server that counts against its lane.
type countedConn struct {
	net.Conn
	lane *Lane
	once sync.Once
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.lane.spend(n) {
		return 0, errBudget
	}
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if !c.lane.spend(n) {
		return n, errBudget
	}
	return n, err
}

// CloseWrite passes on the end of one direction.
func (c *countedConn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return nil
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.lane.release(c) })
	return c.Conn.Close()
}

// spend counts n bytes and reports whether the connection may go on. The read
// that passes the limit is counted and thrown away.
func (l *Lane) spend(n int) bool {
	total := l.bytes.Add(int64(n))
	if l.limits.MaxBytes > 0 && total > l.limits.MaxBytes {
		l.exceeded.Store(true)
		l.overBytes.Store(true)
	}
	return !l.overBytes.Load()
}

// admit counts a request. It returns a denial when a budget is spent.
func (l *Lane) admit(host string, port uint16) *Denial {
	n := l.requests.Add(1)
	if l.overBytes.Load() {
		return deny(host, port, RuleBytes, "the task has used up its %d bytes", l.limits.MaxBytes)
	}
	if l.limits.MaxRequests > 0 && n > l.limits.MaxRequests {
		l.exceeded.Store(true)
		return deny(host, port, RuleRequests, "the task has used up its %d requests", l.limits.MaxRequests)
	}
	return nil
}
