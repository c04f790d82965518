package redismodes

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A name is an address that can be pointed at another server, as a DNS name can:
// what is connected stays where it is, new connections go to the new one. A
// filter sees, and may replace, what the server answers.
type name struct {
	ln     net.Listener
	filter func([]byte) []byte
	wg     sync.WaitGroup

	mu     sync.Mutex
	target string
	open   map[net.Conn]bool
	closed bool
}

func newName(t *testing.T, target string, filter func([]byte) []byte) *name {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &name{ln: ln, target: target, filter: filter, open: map[net.Conn]bool{}}
	n.wg.Go(n.accept)
	t.Cleanup(func() {
		_ = ln.Close()
		n.mu.Lock()
		n.closed = true
		for c := range n.open {
			_ = c.Close()
		}
		n.mu.Unlock()
		n.wg.Wait()
	})
	return n
}

func (n *name) url() string { return "redis://" + n.ln.Addr().String() }

// pointTo makes new connections go to another server.
func (n *name) pointTo(target string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.target = target
}

func (n *name) accept() {
	for {
		client, err := n.ln.Accept()
		if err != nil {
			return
		}
		n.mu.Lock()
		target := n.target
		n.mu.Unlock()
		server, err := net.Dial("tcp", target)
		if err != nil || !n.keep(client, server) {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			continue
		}
		end := sync.OnceFunc(func() { n.drop(client, server) })
		n.wg.Go(func() {
			defer end()
			_, _ = io.Copy(server, client) // either side may end it
		})
		n.wg.Go(func() {
			defer end()
			n.answers(client, server)
		})
	}
}

// answers passes on what the server says.
func (n *name) answers(client io.Writer, server io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		k, err := server.Read(buf)
		if k > 0 {
			text := buf[:k]
			if n.filter != nil {
				text = n.filter(text)
			}
			if _, err := client.Write(text); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (n *name) keep(conns ...net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range conns {
		n.open[c] = !n.closed
	}
	return !n.closed
}

func (n *name) drop(conns ...net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range conns {
		delete(n.open, c)
		_ = c.Close()
	}
}
