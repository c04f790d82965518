package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

// A waiter that could not reach the queue when its executor went away does not
// come back to say that it can: the outage must end without it.
func TestAnExecutorGoneDuringAnOutageLeavesNoOutageBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.start()
		rest(time.Second)
		r.q.setFault(func(op string) error {
			if op == "wait" || op == "newwaiter" {
				return errAway
			}
			return nil
		})
		rest(11 * time.Second) // every pop that was under way has ended
		if s := r.Status(); s.QueueAwaySince.IsZero() {
			t.Fatal("the waiters did not fail")
		}
		ready := r.h.status
		r.h.setStatus(ExecutorStatus{Name: "general", State: "not_ready", Reasons: []string{"it was killed"}})
		rest(time.Second)
		r.q.setFault(nil)
		rest(11 * time.Second)
		if s := r.Status(); !s.QueueAwaySince.IsZero() {
			t.Errorf("an outage goes on after its end: %s", s.QueueError)
		}
		r.h.setStatus(ready...)
		rest(time.Second)
		r.q.add("normal:general", "t1", "general")
		rest(time.Second)
		r.wantStatus("t1", queue.StatusCompleted)
		r.wantCleanEnd()
		r.wantNoProblems()
	})
}
