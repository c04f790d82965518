// Package miniserver runs an in-process Redis stand-in (miniredis) whose keys
// expire in real time. It serves `autobot-control dev` on machines without a
// redis-server, and unit tests. It keeps everything in memory, and lacks
// CLIENT ID, CLIENT UNBLOCK, CONFIG, ACL and most of INFO.
package miniserver

import (
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// step is how often the keys' time is moved on, and so how late they expire.
const step = 100 * time.Millisecond

// Server is one running miniredis. Close it after use.
type Server struct {
	mini *miniredis.Miniredis
	quit chan struct{}
	done chan struct{}
	once sync.Once
}

// Run starts a server on addr ("127.0.0.1:0" chooses a free port) and returns
// when it accepts connections.
func Run(addr string) (*Server, error) {
	mini := miniredis.NewMiniRedis()
	if err := mini.StartAddr(addr); err != nil {
		return nil, fmt.Errorf("start the in-memory Redis on %s: %w", addr, err)
	}
	s := &Server{mini: mini, quit: make(chan struct{}), done: make(chan struct{})}
	go s.age()
	return s, nil
}

// Addr returns host:port of the server.
func (s *Server) Addr() string { return s.mini.Addr() }

// URL returns the address as a redis:// URL.
func (s *Server) URL() string { return "redis://" + s.mini.Addr() }

// RequirePassword makes the server ask new connections for a password.
func (s *Server) RequirePassword(password string) { s.mini.RequireAuth(password) }

// Close ends the server and its connections and forgets its data. It may be
// called more than once.
func (s *Server) Close() {
	s.once.Do(func() {
		close(s.quit)
		<-s.done
		s.mini.Close()
	})
}

// age moves the keys' time on by what has really passed: miniredis counts
// their lives down only when told to.
func (s *Server) age() {
	defer close(s.done)
	tick := time.NewTicker(step)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-s.quit:
			return
		case <-tick.C:
			now := time.Now()
			s.mini.FastForward(now.Sub(last))
			last = now
		}
	}
}
