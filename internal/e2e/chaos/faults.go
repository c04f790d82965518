package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/autobot-fleet/autobot/client"
)

// injector carries out a schedule.
type injector struct {
	f       *fleet
	client  *client.Client // of an operator
	tasks   *book
	without map[Kind]string // kinds that are left out here, and why

	wg     sync.WaitGroup
	server sync.Mutex
	mu     sync.Mutex
	done   map[Kind]int
	missed map[Kind]int // came while their target was still busy with another
	spans  []Span
	faults []string // what could not be carried out
}

// A Span is the time that a fault took, until it was put right.
type Span struct{ From, To time.Time }

func newInjector(f *fleet, c *client.Client, tasks *book) *injector {
	in := &injector{f: f, client: c, tasks: tasks, without: map[Kind]string{}, done: map[Kind]int{}, missed: map[Kind]int{}}
	if f.disks.without != "" {
		in.without[FullDisk] = f.disks.without
	}
	return in
}

// run injects the faults at their times and returns when the last one has been
// put right, or soon after ctx is done.
func (in *injector) run(ctx context.Context, schedule []Fault) {
	defer in.wg.Wait()
	for _, fault := range schedule {
		timer := time.NewTimer(time.Until(in.f.began.Add(fault.At)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if in.without[fault.Kind] != "" {
			continue
		}
		in.wg.Go(func() { in.inject(ctx, fault) })
	}
}

// inject carries out one fault.
func (in *injector) inject(ctx context.Context, fault Fault) {
	from := time.Now()
	carriedOut, err := in.carryOut(ctx, fault)
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case err != nil:
		in.faults = append(in.faults, fmt.Sprintf("%s (%d): %v", fault.Kind, fault.Target, err))
	case !carriedOut:
		in.missed[fault.Kind]++
		return
	}
	in.done[fault.Kind]++
	in.spans = append(in.spans, Span{From: from, To: time.Now()})
	in.f.t.Logf("%s to %s: %s, target %d", from.Sub(in.f.began).Round(ms), time.Since(in.f.began).Round(ms), fault.Kind, fault.Target)
}

// carryOut reports false when the target is still busy with another fault.
func (in *injector) carryOut(ctx context.Context, fault Fault) (bool, error) {
	switch resourceOf(fault.Kind) {
	case anAgent:
		a := in.f.agents[fault.Target]
		if !a.mu.TryLock() {
			return false, nil
		}
		defer a.mu.Unlock()
		return true, in.agent(a, fault)
	case aControl:
		c := in.f.controls[fault.Target]
		if !c.mu.TryLock() {
			return false, nil
		}
		defer c.mu.Unlock()
		return true, in.control(c, fault)
	case aProxy:
		w := in.f.wires[fault.Target]
		if !w.mu.TryLock() {
			return false, nil
		}
		defer w.mu.Unlock()
		return true, in.network(w, fault)
	case theServer:
		if !in.server.TryLock() {
			return false, nil
		}
		defer in.server.Unlock()
		return true, in.redis(ctx, fault)
	case aDrain, aQueue:
		return true, in.operator(ctx, fault)
	}
	return in.atOnce(ctx, fault)
}

// pause is how long a fault lasts.
func pause(d time.Duration) {
	if d > 0 {
		time.Sleep(d)
	}
}

// insist repeats a command until Redis takes it: it may be away for another
// reason.
func insist(what string, do func(ctx context.Context) error) error {
	var err error
	if !await(time.Minute, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		err = do(ctx)
		return err == nil
	}) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
