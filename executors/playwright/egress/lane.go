package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	headerTimeout  = 15 * time.Second // from the first byte of a request to its last header
	idleTimeout    = time.Minute
	maxHeader      = 64 << 10
	maxReplyHeader = 256 << 10 // Chromium's own limit
	maxConns       = 256       // of the browser to one lane; Chromium opens 32 to a proxy
	maxDenials     = 200       // that are kept; all are counted
)

// Limits of one lane. Zero means no limit.
type Limits struct {
	MaxBytes    int64   // both ways, between the guard and the servers, headers included
	MaxRequests int64   // plain requests and tunnels
	Policy      *Policy // narrowed from the guard's; nil: the guard's own
}

// A Lane is the proxy of one task. It listens on 127.0.0.1 on a port of its
// own and reaches only what its policy permits. Who else on this machine
// finds the port reaches no more than the task does.
type Lane struct {
	guard    *Guard
	policy   Policy
	limits   Limits
	listener net.Listener
	server   *http.Server
	upstream *http.Transport
	ctx      context.Context // ends with the lane; every dial and tunnel hangs on it
	cancel   context.CancelFunc
	work     sync.WaitGroup // the serve loop, browser connections and tunnels

	bytes, requests atomic.Int64
	open            atomic.Int64 // connections of the browser, tunnels included
	exceeded        atomic.Bool  // any limit
	overBytes       atomic.Bool  // no byte passes any more

	mu      sync.Mutex
	denials []Denial
	denied  int64
	conns   map[net.Conn]struct{} // tunnels and upstream connections
	closed  bool
}

// Open starts a lane. It lives until Close, or until ctx is done: then its
// connections are cut, and Close is still due.
func (g *Guard) Open(ctx context.Context, limits Limits) (*Lane, error) {
	listener, err := g.listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open an egress proxy on loopback: %w", err)
	}
	l := &Lane{
		guard: g, policy: g.policy, limits: limits, listener: listener,
		conns: make(map[net.Conn]struct{}),
	}
	if limits.Policy != nil {
		l.policy = *limits.Policy
	}
	l.ctx, l.cancel = context.WithCancel(ctx)
	l.upstream = &http.Transport{
		Proxy:                  nil,
		DialContext:            l.dial,
		DisableCompression:     true, // the browser asks for what it wants
		MaxIdleConnsPerHost:    6,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxReplyHeader,
	}
	l.server = &http.Server{
		Handler:           http.HandlerFunc(l.serve),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnState:         l.track,
		ErrorLog:          zap.NewStdLog(zap.NewNop()), // a browser that hangs up is no event
		BaseContext:       func(net.Listener) context.Context { return l.ctx },
	}
	stop := context.AfterFunc(l.ctx, l.cut)
	l.work.Go(func() {
		defer stop()
		_ = l.server.Serve(listener)
	})
	return l, nil
}

// URL is the proxy's address for the browser's settings.
func (l *Lane) URL() string { return "http://" + l.listener.Addr().String() }

// Bytes is how much went both ways between the guard and the servers.
func (l *Lane) Bytes() int64 { return l.bytes.Load() }

// Requests is how many requests and tunnels the lane was asked for.
func (l *Lane) Requests() int64 { return l.requests.Load() }

// Exceeded reports whether a limit of the lane was hit. Beyond its bytes
// nothing passes; beyond its requests no further one begins.
func (l *Lane) Exceeded() bool { return l.exceeded.Load() }

// Denials returns what was refused, oldest first, 200 at most. DenialCount
// counts all.
func (l *Lane) Denials() []Denial {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Denial(nil), l.denials...)
}

// DenialCount is how many requests were refused.
func (l *Lane) DenialCount() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.denied
}

// DenialOf returns the newest denial of the host and port of an address, so
// that a caller can tell a page that was refused from one that failed.
func (l *Lane) DenialOf(raw string) (Denial, bool) {
	u, err := url.Parse(raw)
	if err != nil {
		return Denial{}, false
	}
	host, port, err := hostPort(u)
	if err != nil {
		return Denial{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.denials) - 1; i >= 0; i-- {
		if d := l.denials[i]; d.Host == host && d.Port == port {
			return d, true
		}
	}
	return Denial{}, false
}

// Close ends the lane: it cuts every connection and waits for every goroutine.
// It may be called more than once.
func (l *Lane) Close() error {
	l.cancel()
	l.cut()
	l.work.Wait()
	return nil
}

// cut closes the listener and every connection, and refuses new ones.
func (l *Lane) cut() {
	l.mu.Lock()
	l.closed = true
	conns := make([]net.Conn, 0, len(l.conns))
	for c := range l.conns {
		conns = append(conns, c)
	}
	l.mu.Unlock()
	_ = l.listener.Close() // Serve may not have begun
	_ = l.server.Close()
	for _, c := range conns {
		_ = c.Close()
	}
	l.upstream.CloseIdleConnections()
}

// hold remembers a connection that cut must close. It reports false, and
// closes the connection, when the lane is closed already.
func (l *Lane) hold(c net.Conn) bool {
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.conns[c] = struct{}{}
	}
	l.mu.Unlock()
	if closed {
		_ = c.Close()
	}
	return !closed
}

func (l *Lane) release(c net.Conn) {
	l.mu.Lock()
	delete(l.conns, c)
	l.mu.Unlock()
}

// track counts the goroutines of the server: it runs one per connection and
// does not wait for them itself.
func (l *Lane) track(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		l.work.Add(1)
		if l.open.Add(1) > maxConns {
			_ = c.Close()
		}
	case http.StateClosed:
		l.open.Add(-1)
		l.work.Done()
	case http.StateHijacked: // connect counts it from here on
		l.work.Done()
	}
}

// dial is how the lane reaches servers.
func (l *Lane) dial(ctx context.Context, network, target string) (net.Conn, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, net.ErrClosed
	}
	l.work.Add(1) // http.Transport goes on dialling when its request is gone
	l.mu.Unlock()
	defer l.work.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	conn, err := l.guard.dial(ctx, l.policy, network, target)
	if err != nil {
		return nil, err
	}
	c := &countedConn{Conn: conn, lane: l}
	if !l.hold(c) {
		return nil, net.ErrClosed
	}
	return c, nil
}

// refuse logs a denial.
func (l *Lane) refuse(d *Denial, method, address string) {
	d.Method = method
	if address != "" {
		d.URL = address
	}
	l.mu.Lock()
	l.denied++
	keep := len(l.denials) < maxDenials
	if keep {
		l.denials = append(l.denials, *d)
	}
	l.mu.Unlock()
	if !keep {
		return // a page that tries all the time shall not fill the log either
	}
	l.guard.log.Info("egress denied", zap.String("target", d.Target()), zap.String("rule", string(d.Rule)), zap.String("reason", d.Reason))
}

// asDenial finds the denial in an error of dial.
func asDenial(err error) *Denial {
	var d *Denial
	if errors.As(err, &d) {
		copied := *d
		return &copied
	}
	return nil
}
