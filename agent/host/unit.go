package host

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/executors"
)

// A unit is one version of one executor, with certain settings, and all its
// processes. Fields below "lock" belong to the host's lock.
type unit struct {
	h        *Host
	name     string
	exe      string
	manifest executors.Manifest
	set      settings
	log      *zap.Logger

	ctx    context.Context // ends its processes
	cancel context.CancelFunc
	slots  sync.WaitGroup
	probed chan struct{} // closed when the first process was judged
	gone   chan struct{} // closed when no process is left

	// lock
	path     string
	mark     string
	procs    map[*proc]struct{}
	slotsRun int
	soloing  int // solo runs that have or wait for a process
	draining bool
	buried   bool                  // it has ended: nothing may be started any more
	desc     executors.Description // the newest
	failed   string                // why the last start or process ended
	crash    crashLog
}

// startUnit starts a new unit. The one that served the name until now goes on
// until the new one is ready.
func (h *Host) startUnit(p program, set settings, mark string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	u := &unit{
		h: h, name: p.name, path: p.path, exe: p.exe, manifest: p.manifest, set: set, mark: mark,
		log: h.log.With(zap.String("executor", p.name)),
		ctx: ctx, cancel: cancel, probed: make(chan struct{}), gone: make(chan struct{}),
		procs: map[*proc]struct{}{},
		crash: crashLog{limit: h.cfg.CrashLimit, window: h.cfg.CrashWindow, cooldown: h.cfg.Cooldown},
	}
	u.log.Info("starting executor", zap.String("version", p.manifest.Version), zap.String("path", p.path))
	h.units = append(h.units, u)
	u.growTo(1)
	go u.bury()
	h.notify()
}

// growTo starts slots until there are n. The lock must be held.
func (u *unit) growTo(n int) {
	for u.slotsRun < n {
		i := u.slotsRun
		u.slotsRun++
		u.slots.Go(func() { u.slot(i) })
	}
}

// bury forgets the unit when it has ended.
func (u *unit) bury() {
	<-u.ctx.Done()
	h := u.h
	h.mu.Lock()
	u.buried = true
	h.mu.Unlock()
	u.slots.Wait()
	h.mu.Lock()
	for i, other := range h.units {
		if other == u {
			h.units = append(h.units[:i:i], h.units[i+1:]...)
			break
		}
	}
	h.notify()
	h.mu.Unlock()
	close(u.gone)
}

// end ends all processes of the unit; gone tells when they are.
func (u *unit) end() { u.cancel() }

// drain lets the unit finish what it has, then ends it.
func (u *unit) drain(why string) {
	h := u.h
	h.mu.Lock()
	if u.draining {
		h.mu.Unlock()
		return
	}
	u.draining = true
	left := u.inFlight()
	u.endWhenIdle()
	h.notify()
	h.mu.Unlock()
	u.log.Info("executor draining", zap.String("why", why), zap.String("version", u.manifest.Version), zap.Int("in_flight", left))
}

// endWhenIdle ends a draining unit that has nothing left. The lock must be held.
func (u *unit) endWhenIdle() {
	if u.draining && u.inFlight() == 0 {
		u.end()
	}
}

// inFlight counts its tasks. The lock must be held.
func (u *unit) inFlight() int {
	n := u.soloing
	for p := range u.procs {
		if !p.solo {
			n += len(p.runs)
		}
	}
	return n
}

// state is called with the lock held.
func (u *unit) state(now time.Time) string {
	alive := false
	ready := false
	for p := range u.procs {
		if !p.solo && !p.going {
			alive = true
			ready = ready || p.ready
		}
	}
	switch {
	case u.draining:
		return StateDraining
	case u.crash.disabled(now):
		return StateDisabled
	case ready:
		return StateReady
	case alive:
		return StateNotReady
	case u.failed != "":
		return StateCrashed
	}
	return StateStarting
}

// reasons is called with the lock held.
func (u *unit) reasons(state string, now time.Time) []string {
	switch state {
	case StateDisabled:
		return []string{fmt.Sprintf("crashed too often, will be tried again in %s; the last time: %s",
			u.crash.until.Sub(now).Round(time.Second), u.crash.last)}
	case StateCrashed:
		return []string{u.failed}
	case StateReady, StateNotReady:
		for p := range u.procs {
			if !p.solo && len(p.reasons) > 0 {
				return p.reasons
			}
		}
	}
	if state == StateNotReady {
		return []string{"the executor does not say why"}
	}
	return nil
}

// learned notes what a process says about itself. A ready one makes the former
// units of the name drain. The lock must be held.
func (u *unit) learned(p *proc) (replaced []*unit) {
	u.desc = p.desc
	if !p.solo {
		want := max(p.desc.Processes, 1)
		if u.set.processes > 0 {
			want = u.set.processes
		}
		if !u.draining && !u.buried {
			u.growTo(min(want, 64))
		}
	}
	if p.ready && !u.draining {
		for _, other := range u.h.units {
			if other == u {
				break
			}
			if other.name == u.name && !other.draining {
				replaced = append(replaced, other)
			}
		}
	}
	u.h.notify()
	return replaced
}

// judged notes that the first process has been judged.
func (u *unit) judged() {
	u.h.mu.Lock()
	defer u.h.mu.Unlock()
	select {
	case <-u.probed:
	default:
		close(u.probed)
	}
}

// crashed notes that a process died or did not start, and reports whether
// that was once too often.
func (u *unit) crashed(why string) {
	h := u.h
	h.mu.Lock()
	u.failed = why
	h.crashes[u.name]++
	disabled := u.crash.add(time.Now(), why)
	h.notify()
	h.mu.Unlock()
	if disabled {
		u.log.Error("executor disabled: it crashes again and again", zap.Duration("cool_down", h.cfg.Cooldown), zap.String("why", why))
	} else {
		u.log.Warn("executor crashed; will be started again", zap.String("why", why))
	}
}

// whyNot is one sentence on why the unit takes no task. The lock must be held.
func (u *unit) whyNot(now time.Time) string {
	state := u.state(now)
	s := fmt.Sprintf("executor %s is %s", u.name, strings.ReplaceAll(state, "_", " "))
	if r := u.reasons(state, now); len(r) > 0 {
		s += ": " + strings.Join(r, "; ")
	}
	return s
}
