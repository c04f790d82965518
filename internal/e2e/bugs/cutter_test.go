package bugs_test

import (
	"net"
	"sync"
	"testing"
)

// A cutter stands between a program and Redis and cuts connections at a chosen
// request: before the server sees it, or after the server has answered.
type cutter struct {
	ln     net.Listener
	server string
	wg     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	match func(request []byte) bool
	left  int  // cuts to come
	late  bool // the request gets through, its answer does not
	cuts  int
}

func startCutter(t *testing.T, server string) *cutter {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{ln: ln, server: server, conns: map[net.Conn]bool{}}
	c.wg.Go(c.accept)
	t.Cleanup(func() {
		_ = ln.Close()
		c.mu.Lock()
		for conn := range c.conns {
			_ = conn.Close()
		}
		c.mu.Unlock()
		c.wg.Wait()
	})
	return c
}

func (c *cutter) URL() string { return "redis://" + c.ln.Addr().String() }

// cut ends the next n connections that carry a matching request.
func (c *cutter) cut(n int, late bool, match func(request []byte) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.late, c.match = n, late, match
}

// done counts the cuts so far.
func (c *cutter) done() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cuts
}

// wanted tells whether the connection with this request is to be cut, and when.
func (c *cutter) wanted(request []byte) (cut, late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 || !c.match(request) {
		return false, false
	}
	c.left--
	c.cuts++
	return true, c.late
}

func (c *cutter) keep(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns[conn] = true
}

func (c *cutter) accept() {
	for {
		program, err := c.ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.server)
		if err != nil {
			_ = program.Close()
			continue
		}
		c.keep(program)
		c.keep(server)
		mute := make(chan struct{}) // closed: no answer gets through
		c.wg.Go(func() { c.requests(server, program, mute) })
		c.wg.Go(func() { c.answers(program, server, mute) })
	}
}

func (c *cutter) requests(server, program net.Conn, mute chan struct{}) {
	buf := make([]byte, 1<<20)
	for {
		n, err := program.Read(buf)
		if n > 0 {
			cut, late := c.wanted(buf[:n])
			if cut && !late {
				break
			}
			if cut {
				close(mute)
			}
			if _, err := server.Write(buf[:n]); err != nil {
				break
			}
			if cut {
				return // its answer ends the connection
			}
		}
		if err != nil {
			break
		}
	}
	_ = program.Close()
	_ = server.Close()
}

func (c *cutter) answers(program, server net.Conn, mute chan struct{}) {
	defer func() {
		_ = program.Close()
		_ = server.Close()
	}()
	buf := make([]byte, 1<<20)
	for {
		n, err := server.Read(buf)
		select {
		case <-mute:
			return
		default:
		}
		if n > 0 {
			if _, err := program.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
