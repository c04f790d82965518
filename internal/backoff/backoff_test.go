package backoff

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestDelaysGrowToTheMaximumAndStayThere(t *testing.T) {
	t.Parallel()
	b := New(100*time.Millisecond, time.Second)
	if d := b.Next(); d < 70*time.Millisecond || d > 130*time.Millisecond {
		t.Errorf("the first delay is %v, want 100ms ± 30%%", d)
	}
	for range 200 {
		if d := b.Next(); d > time.Second || d < 70*time.Millisecond {
			t.Fatalf("delay %v is outside of 70ms..1s", d)
		}
	}
	if d := b.Next(); d < 700*time.Millisecond {
		t.Errorf("after many failures the delay is %v, want about a second", d)
	}
	b.Reset()
	if d := b.Next(); d > 130*time.Millisecond {
		t.Errorf("after Reset the delay is %v, want about 100ms", d)
	}
}

func TestJitterSpreadsDelays(t *testing.T) {
	t.Parallel()
	seen := map[time.Duration]bool{}
	for range 20 {
		seen[New(time.Second, time.Minute).Next()] = true
	}
	if len(seen) < 2 {
		t.Error("twenty first delays are all the same")
	}
}

func TestOddBoundsAreRepaired(t *testing.T) {
	t.Parallel()
	for range 5 {
		if d := New(0, 0).Next(); d <= 0 || d > time.Millisecond {
			t.Errorf("New(0, 0) gives %v, want up to 1ms", d)
		}
		if d := New(time.Second, time.Millisecond).Next(); d > time.Second || d < 700*time.Millisecond {
			t.Errorf("a maximum below the minimum gives %v, want about 1s", d)
		}
	}
}

func TestSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		start := time.Now()
		if !Sleep(ctx, time.Hour) || time.Since(start) != time.Hour {
			t.Errorf("slept %v, want an hour", time.Since(start))
		}
		if !Sleep(ctx, 0) {
			t.Error("a sleep of zero is over at once")
		}
		time.AfterFunc(time.Minute, cancel)
		start = time.Now()
		if Sleep(ctx, time.Hour) || time.Since(start) != time.Minute {
			t.Errorf("a cancelled sleep lasted %v, want a minute", time.Since(start))
		}
		if Sleep(ctx, 0) {
			t.Error("a sleep with a context that is done reports success")
		}
	})
}
