package host

import (
	"context"

	"github.com/autobot-fleet/autobot/executors"
)

// maxSolo is how many tasks of an executor run alone at the same time.
const maxSolo = 2

// placeAlone starts a process for one run only. It is shut down afterwards.
func (h *Host) placeAlone(ctx context.Context, r *run, typ string) (*proc, error) {
	var u *unit
	err := h.await(ctx, typ, func(ready *unit) bool {
		if ready.soloing >= maxSolo {
			return false
		}
		u = ready
		u.soloing++
		u.slots.Add(1) // the unit waits for the process
		return true
	})
	if err != nil {
		return nil, err
	}
	startCtx, cancel := context.WithCancel(u.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	p, err := u.start(startCtx, true)
	if err != nil {
		u.soloOver()
		switch {
		case ctx.Err() != nil:
			return nil, executors.AsError(ctx.Err())
		case u.ctx.Err() != nil:
			return nil, ErrReplaced
		}
		return nil, executors.Errorf(executors.CodeEngineUnavailable, "executor %s did not start for a task that is to run alone: %v", u.name, err)
	}
	superviseCtx, stop := context.WithCancel(u.ctx)
	h.mu.Lock()
	p.runs[r] = struct{}{}
	p.whenEmpty = stop
	h.mu.Unlock()
	go func() {
		defer u.soloOver()
		defer stop()
		p.supervise(superviseCtx)
	}()
	return p, nil
}

func (u *unit) soloOver() {
	u.h.mu.Lock()
	u.soloing--
	u.endWhenIdle()
	u.h.free()
	u.h.mu.Unlock()
	u.slots.Done()
}
