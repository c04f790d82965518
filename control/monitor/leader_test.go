package monitor

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestOneLeads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		a, _, stopA := start(t, s, "a", "fast")
		time.Sleep(time.Second)
		b, _, stopB := start(t, s, "b", "fast")
		time.Sleep(10 * time.Second)
		if !a.Status().Leader || b.Status().Leader {
			t.Fatalf("a %+v, b %+v", a.Status(), b.Status())
		}
		epoch := a.Status().Epoch
		stopA()
		time.Sleep(1200 * time.Millisecond) // b asks every second
		if !b.Status().Leader || b.Status().Epoch <= epoch {
			t.Fatalf("after a clean stop of the leader: %+v", b.Status())
		}
		stopB()
	})
}

func TestLeaderDropsTheLeadBeforeTheLeaseEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		m, _, stop := start(t, s, "a", "fast")
		time.Sleep(5 * time.Second)
		var ends time.Time
		s.do(func() { s.down, ends = true, s.leaderEnds })
		for m.Status().Leader {
			if !time.Now().Before(ends) {
				t.Fatal("still believes to lead when the lease has ended")
			}
			time.Sleep(10 * time.Millisecond)
		}
		s.do(func() { s.down = false })
		time.Sleep(5 * time.Second)
		if !m.Status().Leader {
			t.Error("did not lead again after the outage")
		}
		stop()
	})
}
