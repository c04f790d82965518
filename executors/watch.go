package executors

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/autobot-fleet/autobot/executors/child"
)

// parentPoll is how often an executor looks whether its agent still lives. The
// parent-death signal comes sooner; this is for where it does not come.
const parentPoll = 500 * time.Millisecond

// watch keeps signals from ending a busy executor, and ends it when its parent
// is gone, or when the lease has run out while a task runs. The returned
// function stops watching.
func watch(s *server, stderr io.Writer) (stop func()) {
	parent := os.Getppid()
	if pid, err := strconv.Atoi(os.Getenv(envParent)); err == nil {
		parent = pid // it may have died before we looked
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		timer := time.NewTimer(0)
		defer timer.Stop()
		for {
			select {
			case <-quit:
				return
			case sig := <-signals:
				if sig != syscall.SIGHUP && s.quiet() {
					s.stop()
				}
			case <-timer.C:
			}
			if s.overdue() {
				// Nothing comes before this: whoever reads what we print may be
				// as frozen as the agent.
				child.KillAll()
				killCgroup(s.cgroup)
				killGroup(1)
			}
			timer.Reset(min(parentPoll, s.leaseLeft()))
			if os.Getppid() != parent {
				_, _ = fmt.Fprintf(stderr, "executor: the agent (pid %d) is gone, ending\n", parent)
				s.abandon(parentPoll)
				killGroup(1)
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(quit)
		<-ended
	}
}

// overdue reports that the lease has run out and a task runs all the same.
func (s *server) overdue() bool {
	if s.lease == nil || !lapsed(s.lease) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active > 0
}

// leaseLeft is how long the lease lasts. It is only ever moved on, so nothing
// is missed by sleeping as long.
func (s *server) leaseLeft() time.Duration {
	if s.lease == nil {
		return parentPoll
	}
	until := s.lease.Load()
	left := time.Duration(until) - bootTime()
	if until == 0 || left <= 0 { // none, or run out while idle
		return parentPoll
	}
	return left
}
