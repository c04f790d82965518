package playwright

import (
	"context"
	"sync"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

const maxSessions = 5

// sessions are the surfaces that are kept between tasks, by name.
type sessions struct {
	mu     sync.Mutex
	byName map[string]*kept
	ends   sync.WaitGroup // goroutines that close surfaces
	closed bool
}

// A kept surface belongs to a task while that runs, and to a timer otherwise.
type kept struct {
	surface *surface
	busy    bool
	timer   *time.Timer
}

// sessionState tells a result about its session.
type sessionState struct {
	ID      string    `json:"id"`
	Resumed bool      `json:"resumed"`
	Until   time.Time `json:"until,omitzero"`
}

// take reserves a session for a task. The surface is nil when the task has to
// open one; a nil error obliges the caller to call put or drop.
func (s *sessions) take(want *sessionRequest) (*surface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, there := s.byName[want.ID]
	switch {
	case there && k.busy:
		e := executors.Errorf(executors.CodeResourceExhausted, "session %s is in use by another task", want.ID)
		e.Delay, e.Field = time.Second, "session.id"
		return nil, e
	case there && k.surface.usable():
		k.busy = true
		k.timer.Stop()
		return k.surface, nil
	case there:
		s.end(want.ID, k)
	}
	if want.Resume {
		return nil, lost(want.ID)
	}
	if len(s.byName) >= maxSessions {
		e := executors.Errorf(executors.CodeResourceExhausted, "%d sessions are kept already, that is the limit", maxSessions)
		e.Delay, e.Field = 5*time.Second, "session"
		return nil, e
	}
	s.byName[want.ID] = &kept{busy: true}
	return nil, nil
}

// lost is the error for a session that should be there and is not.
func lost(id string) *executors.Error {
	e := executors.Errorf(executors.CodeSessionLost, "session %s is not on this worker: its time is over, its browser has ended, or it was begun on another worker", id)
	e.Field = "session.id"
	e.Hint = "begin it again without resume, and send its tasks to one worker"
	return e
}

// put keeps a surface for the next task, as long as the request says, and
// returns until when. The surface must not be used any more by the caller.
func (s *sessions) put(want *sessionRequest, surface *surface) time.Time {
	surface.rec.Store(idleRecorder())
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.byName[want.ID]
	if k == nil { // the executor is shutting down
		s.ends.Go(surface.close)
		return time.Time{}
	}
	k.surface, k.busy = surface, false
	keep := time.Duration(*want.KeepS) * time.Second
	if s.closed || keep == 0 || !surface.usable() {
		s.end(want.ID, k)
		return time.Time{}
	}
	k.timer = time.AfterFunc(keep, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.byName[want.ID] == k && !k.busy {
			s.end(want.ID, k)
		}
	})
	return time.Now().Add(keep).UTC()
}

// drop gives up the name of a session whose surface is gone.
func (s *sessions) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byName, id)
}

// end closes an idle session. The lock is held.
func (s *sessions) end(id string, k *kept) {
	delete(s.byName, id)
	if k.timer != nil {
		k.timer.Stop()
	}
	s.ends.Go(k.surface.close)
}

// leave ends the idle sessions in a browser that is being replaced. Sessions
// hold a browser for minutes; a replacement is not to wait for that.
func (s *sessions) leave(b *browser) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, k := range s.byName {
		if !k.busy && k.surface.browser == b && !b.alive() {
			s.end(id, k)
		}
	}
}

// close ends all idle sessions and waits for them; busy ones end with their
// tasks.
func (s *sessions) close(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	for id, k := range s.byName {
		if !k.busy {
			s.end(id, k)
		}
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ends.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
