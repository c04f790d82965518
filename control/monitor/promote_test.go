package monitor

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPromotionSleepsUntilTheEarliestAndIsWoken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		_, _, stop := start(t, s, "a", "fast")
		time.Sleep(10 * time.Second)
		for _, d := range []time.Duration{2 * time.Second, 130 * time.Millisecond, 30 * time.Millisecond} {
			due := time.Now().Add(d)
			s.delay("t"+d.String(), d)
			time.Sleep(d + time.Second)
			s.do(func() {
				if late := s.promoted["t"+d.String()].Sub(due); late < 0 || late > 20*time.Millisecond {
					t.Errorf("due in %v: promoted %v late", d, late)
				}
			})
		}
		s.do(func() { s.calls["promote"] = 0 })
		time.Sleep(10 * time.Second)
		s.do(func() {
			if n := s.calls["promote"]; n > 21 {
				t.Errorf("%d promotions in 10 idle seconds", n)
			}
		})
		stop()
	})
}

func TestFloodOfDelayedTasksIsNoFloodOfPromotions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer()
		_, _, stop := start(t, s, "a", "fast")
		time.Sleep(5 * time.Second)
		s.do(func() { s.calls["promote"] = 0 })
		for i := range 1000 {
			s.delay("t", time.Hour-time.Duration(i)*time.Second) // each earlier than the one before
			time.Sleep(time.Millisecond)
		}
		s.do(func() {
			if n := s.calls["promote"]; n > 105 {
				t.Errorf("%d promotions in one second", n)
			}
		})
		stop()
	})
}
