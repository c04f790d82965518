package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/backoff"
	"github.com/autobot-fleet/autobot/queue"
)

const (
	maxWaiters    = 64 // lists beyond are swept
	minBlock      = 2 * time.Second
	maxBlock      = 10 * time.Second
	unblockEvery  = 20 * time.Millisecond
	unblockLimit  = 2 * time.Second // for one call
	closeGrace    = 2 * time.Second
	overdueMargin = 15 * time.Second // beyond the block time, then the connection is dropped
)

// blockTime is how long a waiter of n blocks: n/5 s within its bounds, so that
// an idle worker costs five commands a second.
func blockTime(n int) time.Duration {
	return min(max(time.Duration(n)*time.Second/5, minBlock), maxBlock)
}

// win is an id that a waiter moved to its queue's processing list.
type win struct {
	queue, id string
}

// waiterSet owns the waiters: one goroutine and one connection per queue. It
// moves ids but decides nothing about them.
//
// When the reply to a pop is lost with its connection, the id stays in the
// processing list, queued and without an owner, until the reaper of the control
// plane puts it back (reap_after). No agent takes such an id up by itself. It
// looks just like one that a worker of another make has popped and not marked
// yet: that worker writes the status later, in a call of its own, without a
// fence. Taken up in between, the task would run twice. Only the reaper's wait
// tells the two apart, however sure an agent is that a connection of its own
// has broken.
type waiterSet struct {
	backend queue.WorkerSide
	log     *zap.Logger
	link    *link
	wake    func() // a reply is in
	cap     time.Duration

	wg         sync.WaitGroup
	mu         sync.Mutex
	byQueue    map[string]*waiter
	block      time.Duration
	wins       []win
	unblocking bool
	again      bool // a connection works again after a failure
}

type waiter struct {
	queue  string
	signal chan struct{} // something below has changed

	// Guarded by waiterSet.mu.
	conn    queue.Waiter
	want    bool // it may block
	leave   bool // its queue is not watched any more
	waiting bool // a pop is under way: only its reply ends it
	refused bool // this wait cannot be ended early
	failing bool
	since   time.Time // start of the wait
	retryAt time.Time
}

func newWaiterSet(b queue.WorkerSide, log *zap.Logger, l *link, wake func(), limit time.Duration) *waiterSet {
	return &waiterSet{backend: b, log: log, link: l, wake: wake, cap: limit, byQueue: map[string]*waiter{}, block: minBlock}
}

// want makes the waiters of these queues block, and no others. Waits that are
// not wanted any more are ended; their replies may still be wins.
func (s *waiterSet) want(queues []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := make(map[string]bool, len(queues))
	for _, q := range queues {
		wanted[q] = true
	}
	s.block = blockTime(len(queues))
	for q, wt := range s.byQueue {
		if wt.want != wanted[q] {
			wt.want = wanted[q]
			wt.poke()
			if !wt.want && wt.failing {
				wt.failing = false
				s.link.gaveUp(waiterSource(q))
			}
		}
		delete(wanted, q)
	}
	for _, q := range queues {
		if !wanted[q] {
			continue
		}
		delete(wanted, q)
		wt := &waiter{queue: q, signal: make(chan struct{}, 1), want: true}
		s.byQueue[q] = wt
		s.wg.Add(1)
		go s.run(wt)
	}
	s.startUnblocking()
}

// keep lets the waiters of all other queues go as soon as they are idle.
func (s *waiterSet) keep(queues []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make(map[string]bool, len(queues))
	for _, q := range queues {
		kept[q] = true
	}
	for q, wt := range s.byQueue {
		wt.leave = !kept[q]
		if wt.leave {
			wt.want = false
			if wt.failing { // nobody is left to tell that it got through
				wt.failing = false
				s.link.gaveUp(waiterSource(q))
			}
			wt.poke()
		}
	}
	s.startUnblocking()
}

// close ends all waiters and waits for them. Pops that are still under way get
// a moment, unless the drain was given up; then their connections are dropped.
func (s *waiterSet) close() {
	s.keep(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.wg.Wait()
	}()
	over := s.link.over.Done()
	for {
		timer := time.NewTimer(closeGrace)
		select {
		case <-done:
			timer.Stop()
			return
		case <-over:
			over = nil
		case <-timer.C:
		}
		timer.Stop()
		s.dropOverdue(time.Now().Add(time.Hour))
	}
}

// takeWins returns the ids won since the last call.
func (s *waiterSet) takeWins() []win {
	s.mu.Lock()
	defer s.mu.Unlock()
	wins := s.wins
	s.wins = nil
	return wins
}

// idle reports whether no pop is under way or about to be sent, and no win is
// left to be handled.
func (s *waiterSet) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, wt := range s.byQueue {
		if wt.waiting || wt.want {
			return false
		}
	}
	return len(s.wins) == 0
}

// retryNow ends the back-off of all waiters: somebody got through.
func (s *waiterSet) retryNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, wt := range s.byQueue {
		wt.retryAt = time.Time{}
		wt.poke()
	}
}

// reconnected reports, once, that a connection works again, or that one works
// and a queue does not.
func (s *waiterSet) reconnected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := s.again
	s.again = false
	return again
}

// dropOverdue drops the connections whose reply is long overdue, so that their
// waits end with an error. It bounds every wait, also over a dead connection.
func (s *waiterSet) dropOverdue(now time.Time) {
	s.mu.Lock()
	var overdue []queue.Waiter
	for _, wt := range s.byQueue {
		if wt.waiting && now.Sub(wt.since) > s.block+overdueMargin {
			overdue = append(overdue, wt.conn)
			wt.since = now
		}
	}
	s.mu.Unlock()
	for _, conn := range overdue {
		_ = conn.Close() // the wait reports the error
	}
}

// run is the life of one waiter.
func (s *waiterSet) run(wt *waiter) {
	defer s.wg.Done()
	back := backoff.New(20*time.Millisecond, s.cap)
	for {
		conn, block, ok := s.begin(wt)
		if !ok {
			return
		}
		var id string
		var err error
		if conn == nil {
			if conn, err = s.backend.NewWaiter(wt.queue); err == nil {
				s.mu.Lock()
				wt.conn = conn
				s.mu.Unlock()
				continue
			}
		} else {
			// Not to be cancelled: a pop that was sent moves an id whether or
			// not somebody waits for the reply.
			id, err = conn.Wait(context.Background(), block)
		}
		s.end(wt, id, err, back)
		if err != nil && conn != nil {
			_ = conn.Close()
		}
		s.wake()
	}
}

// begin blocks until the waiter is to wait, and says so to the others. A nil
// connection means that one has to be made first. It reports false when the
// waiter is to end.
func (s *waiterSet) begin(wt *waiter) (queue.Waiter, time.Duration, bool) {
	for {
		s.mu.Lock()
		pause := time.Until(wt.retryAt)
		switch {
		case wt.leave && !wt.want:
			delete(s.byQueue, wt.queue)
			conn := wt.conn
			s.mu.Unlock()
			if conn != nil {
				_ = conn.Close()
			}
			return nil, 0, false
		case wt.want && pause <= 0:
			wt.refused = false
			if wt.conn != nil {
				wt.waiting = true
				wt.since = time.Now()
			}
			conn, block := wt.conn, s.block
			s.mu.Unlock()
			return conn, block, true
		}
		retry := wt.want
		s.mu.Unlock()
		if !retry {
			<-wt.signal
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-wt.signal:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// end takes the reply of a wait. A waiter that won rests until the claimer has
// dealt with the id: there may be no slot for another.
func (s *waiterSet) end(wt *waiter, id string, err error, back *backoff.Backoff) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wt.waiting = false
	if id != "" {
		s.wins = append(s.wins, win{queue: wt.queue, id: id})
		wt.want = false
	}
	if err != nil {
		wt.conn = nil
		wt.retryAt = time.Now().Add(back.Next())
	}
	switch {
	case errors.Is(err, queue.ErrNotList):
		s.again = true // the server answers; a sweep finds out about the queue
	case err != nil:
		if wt.want {
			wt.failing = true
			s.link.failed(waiterSource(wt.queue), err)
		}
		return
	default:
		back.Reset()
	}
	if wt.failing {
		wt.failing = false
		s.again = true
		s.link.ok(waiterSource(wt.queue))
	}
}

// startUnblocking ends the waits that are not wanted any more. Call with mu
// held.
func (s *waiterSet) startUnblocking() {
	if s.unblocking {
		return
	}
	for _, wt := range s.byQueue {
		if wt.unwanted() {
			s.unblocking = true
			s.wg.Add(1)
			go s.unblock()
			return
		}
	}
}

// unblock asks the server to end the unwanted waits, again and again: "nothing
// to unblock" may mean that the pop has not arrived yet. Only the waiter's own
// reply decides.
func (s *waiterSet) unblock() {
	defer s.wg.Done()
	for {
		s.mu.Lock()
		var targets []*waiter
		for _, wt := range s.byQueue {
			if wt.unwanted() {
				targets = append(targets, wt)
			}
		}
		if len(targets) == 0 {
			s.unblocking = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		for _, wt := range targets {
			s.unblockOne(wt)
		}
		time.Sleep(unblockEvery)
	}
}

func (s *waiterSet) unblockOne(wt *waiter) {
	s.mu.Lock()
	conn, still := wt.conn, wt.unwanted()
	s.mu.Unlock()
	if !still {
		return
	}
	ctx, cancel := context.WithTimeout(s.link.over, unblockLimit)
	defer cancel()
	_, err := conn.Unblock(ctx)
	if errors.Is(err, queue.ErrUnblockRefused) {
		s.mu.Lock()
		wt.refused = true // its block time is the only way out
		s.mu.Unlock()
	}
}

// unwanted reports whether a wait is under way that should be ended. Call with
// waiterSet.mu held.
func (wt *waiter) unwanted() bool { return !wt.want && wt.waiting && !wt.refused }

func (wt *waiter) poke() {
	select {
	case wt.signal <- struct{}{}:
	default:
	}
}
