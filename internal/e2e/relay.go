package e2e

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// A Relay stands between a program and its Redis server.
type Relay struct {
	ln     net.Listener
	server string
	closed chan struct{}
	wg     sync.WaitGroup

	mu   sync.Mutex
	hold func(request []byte) bool
	open chan struct{} // closed while bytes pass
}

// StartRelay listens on a free port and passes everything on to server.
func StartRelay(t testing.TB, server string) *Relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{ln: ln, server: server, closed: make(chan struct{}), open: make(chan struct{})}
	close(r.open)
	r.wg.Go(r.accept)
	t.Cleanup(func() {
		close(r.closed)
		_ = ln.Close()
		r.wg.Wait()
	})
	return r
}

// URL is the address for programs.
func (r *Relay) URL() string { return "redis://" + r.ln.Addr().String() }

// Hold makes the relay keep back, for ever, each request for which hold is
// true, and all that follows on the same connection. A request is what the
// program wrote at once.
func (r *Relay) Hold(hold func(request []byte) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = hold
}

func (r *Relay) held(request []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hold != nil && r.hold(request)
}

// Stall makes the relay pass nothing on, in both directions, and close
// nothing, as a network that has broken down. Resume lets everything through.
func (r *Relay) Stall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = make(chan struct{})
}

// Resume undoes Stall.
func (r *Relay) Resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.open)
}

// passable waits until bytes may pass, and reports false when the relay is
// closed before.
func (r *Relay) passable() bool {
	r.mu.Lock()
	open := r.open
	r.mu.Unlock()
	select {
	case <-open:
		return true
	case <-r.closed:
		return false
	}
}

func (r *Relay) accept() {
	for {
		program, err := r.ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.server)
		if err != nil {
			_ = program.Close()
			continue
		}
		end := sync.OnceFunc(func() {
			_ = program.Close()
			_ = server.Close()
		})
		r.wg.Go(func() {
			defer end()
			r.pass(server, program, true)
		})
		r.wg.Go(func() {
			defer end()
			r.pass(program, server, false)
		})
		r.wg.Go(func() {
			<-r.closed
			end()
		})
	}
}

// pass copies until either side ends.
func (r *Relay) pass(to, from net.Conn, requests bool) {
	buf := make([]byte, 1<<20)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if requests && r.held(buf[:n]) {
				<-r.closed
				return
			}
			if !r.passable() {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// IsMigration reports whether a request moves tasks away from a dead worker.
func IsMigration(request []byte, worker string) bool {
	return bytes.Contains(request, []byte("autobot:leader\r\n")) && bytes.Contains(request, []byte("worker:"+worker+":tasks\r\n")) &&
		!bytes.Contains(request, []byte("failover:log\r\n"))
}
