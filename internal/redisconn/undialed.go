package redisconn

import (
	"net"
	"syscall"
	"time"
)

// undialed stands for a connection that could not be made: whoever uses it gets
// the reason.
//
// go-redis counts failed dials. After as many as a pool has connections, which
// is one for a heartbeat, it makes none for its callers any more: they get the
// last error, and a goroutine tries once a second. That would be a second
// back-off below the callers' own, and up to a second lost at the end of each
// outage. With a connection that fails at its first use nothing is counted,
// and each call of a caller is an attempt.
type undialed struct {
	err error
	to  dialedAddr
}

// unreached is why a connection could not be made. go-redis takes one layer off
// the error of a fresh connection's first use; this is the layer.
type unreached struct{ err error }

func (u *unreached) Error() string { return u.err.Error() }
func (u *unreached) Unwrap() error { return u.err }

// dialedAddr is the address that was dialed.
type dialedAddr struct{ network, text string }

func (a dialedAddr) Network() string { return a.network }
func (a dialedAddr) String() string  { return a.text }

func (u *undialed) Read([]byte) (int, error)         { return 0, u.err }
func (u *undialed) Write([]byte) (int, error)        { return 0, u.err }
func (u *undialed) Close() error                     { return nil }
func (u *undialed) LocalAddr() net.Addr              { return u.to }
func (u *undialed) RemoteAddr() net.Addr             { return u.to }
func (u *undialed) SetDeadline(time.Time) error      { return nil }
func (u *undialed) SetReadDeadline(time.Time) error  { return nil }
func (u *undialed) SetWriteDeadline(time.Time) error { return nil }

// SyscallConn fails the check that a pool makes before it hands out a
// connection again.
func (u *undialed) SyscallConn() (syscall.RawConn, error) { return nil, u.err }
