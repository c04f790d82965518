package redisconn

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// alertConn is a TLS connection whose writes tell why the server has ended it.
// In TLS 1.3 a server looks at our certificate when we have begun to write: if
// it wants another, it sends an alert that says so and closes, and the write
// fails with no more than "connection reset". The alert is there to be read.
type alertConn struct {
	net.Conn
	begun atomic.Bool // something was read
}

// alertWait bounds looking for an alert, which has come before the reset.
const alertWait = 100 * time.Millisecond

func (c *alertConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.begun.Store(true)
	}
	return n, err
}

func (c *alertConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err == nil || c.begun.Load() || !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		return n, err
	}
	if dead := c.SetReadDeadline(time.Now().Add(alertWait)); dead != nil {
		return n, err
	}
	if _, why := c.Conn.Read(make([]byte, 1)); why != nil && !errors.Is(why, os.ErrDeadlineExceeded) {
		return n, why
	}
	return n, err
}
