package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/executors"
)

// describeTimeout bounds one question to an executor. It must answer within a
// second; a busy machine gets some more.
const describeTimeout = 5 * time.Second

// A proc is one process of a unit. Fields below "lock" belong to the host's lock.
type proc struct {
	u       *unit
	process *executors.Process
	session *executors.Session
	pid     int
	solo    bool
	output  *output
	room    room
	gone    chan struct{} // closed when it has ended and end is set
	healthy bool          // what the last health check said; supervise's own
	killed  atomic.Bool   // on purpose: by a cancel, a deadline, the fence or the lease

	// lock
	desc      executors.Description
	ready     bool
	going     bool // nothing is put into it any more
	reasons   []string
	runs      map[*run]struct{}
	whenEmpty func() // for a solo process: ends it
	hung      bool   // killed because it stopped answering
	end       ending
}

// ending is how a process ended.
type ending struct {
	why    string
	text   string // for endCrashed: how, with the last line it printed
	exit   string // the same without that
	output string // its last lines
	alone  bool   // for endCrashed: at most one task was in it
}

// The ways to end.
const (
	endStopped  = "stopped"  // its unit ended
	endReplaced = "replaced" // killed on purpose
	endCrashed  = "crashed"
)

// start launches a process, asks what it serves and opens its task stream. On
// an error nothing is left of it.
func (u *unit) start(ctx context.Context, solo bool) (*proc, error) {
	r, err := u.makeRoom()
	if err != nil {
		r.remove(u.log)
		return nil, err
	}
	p := &proc{u: u, solo: solo, room: r, healthy: true, gone: make(chan struct{}), runs: map[*run]struct{}{}, output: newOutput(u.log)}
	p.process, err = u.launch(ctx, p)
	if err != nil {
		r.remove(u.log)
		u.h.forget(p.pid)
		return nil, err
	}
	u.h.remember(p.pid, p.process.Mark(), r.cgroup.path)
	if err := p.open(ctx); err != nil {
		p.process.Kill()
		r.remove(u.log)
		u.h.forget(p.pid)
		return nil, err
	}
	u.h.mu.Lock()
	u.procs[p] = struct{}{}
	p.output.attach(p)
	replaced := u.learned(p)
	ready, reasons := p.ready, p.reasons
	u.h.mu.Unlock()
	for _, old := range replaced {
		old.drain("a newer version or other settings took over")
	}
	u.log.Info("executor process started", zap.Int("pid", p.pid), zap.String("version", p.desc.Version),
		zap.Bool("ready", ready), zap.Strings("reasons", reasons), zap.Bool("solo", solo))
	return p, nil
}

// launch starts the copy. Right after it was written some child of ours may
// still hold it open for writing; that passes in a moment.
func (u *unit) launch(ctx context.Context, p *proc) (*executors.Process, error) {
	for try := 0; ; try++ {
		process, err := executors.Launch(ctx, executors.LaunchOptions{
			Path: u.exe, Env: p.room.env, Dir: u.h.homeDir(u.name), SocketDir: u.h.sockets,
			StartTimeout: u.h.cfg.StartTimeout, Stderr: p.output, Lease: u.h.lease, CgroupFD: p.room.cgroup.fd(),
			Started: func(pid int) {
				p.pid = pid
				u.h.remember(pid, "", p.room.cgroup.path)
			},
		})
		switch {
		case err == nil:
			return process, nil
		case errors.Is(err, syscall.ETXTBSY) && try < 20:
			select {
			case <-ctx.Done():
				return nil, err
			case <-time.After(50 * time.Millisecond):
			}
		case errors.Is(err, syscall.EACCES):
			return nil, fmt.Errorf("%w (is %s on a file system mounted noexec? choose another state_dir)", err, u.h.cfg.StateDir)
		default:
			return nil, err
		}
	}
}

func (p *proc) open(ctx context.Context) error {
	d, err := p.describe(ctx)
	if err != nil {
		return err
	}
	if d.Name != p.u.name {
		return fmt.Errorf("the executor calls itself %q, its manifest %q", d.Name, p.u.name)
	}
	p.desc, p.ready, p.reasons = d, d.Ready, d.Reasons
	// The stream outlives ctx: at the end tasks are to get their outcomes.
	p.session, err = p.process.Attach(context.WithoutCancel(ctx))
	return err
}

func (p *proc) describe(ctx context.Context) (executors.Description, error) {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	return p.process.Describe(ctx)
}

// supervise watches the process until it has ended and says how. It ends it
// when ctx is done.
func (p *proc) supervise(ctx context.Context) {
	p.watch(ctx)
	// What is put into a process that is going comes back at once, to be put
	// into it again: its successor is worth waiting for.
	p.u.h.mu.Lock()
	p.ready, p.going = false, true
	p.u.h.notify()
	p.u.h.mu.Unlock()
	stopped := ctx.Err() != nil
	if stopped {
		if err := p.process.Shutdown(context.WithoutCancel(ctx), p.u.h.cfg.ShutdownGrace); err != nil {
			p.u.log.Warn("executor process did not stop by itself", zap.Int("pid", p.pid), zap.Error(err))
		}
	} else {
		p.awaitExit()
	}
	p.session.Close()
	exit := p.process.Exit()
	p.room.remove(p.u.log)
	p.u.h.forget(p.pid)
	p.output.flush()

	h := p.u.h
	h.mu.Lock()
	defer h.mu.Unlock()
	short := exit
	short.Output = nil
	p.end = ending{
		why: endCrashed, text: exit.String(), exit: short.String(),
		output: strings.Join(exit.Output, "\n"), alone: len(p.runs) <= 1,
	}
	switch {
	case stopped:
		p.end.why = endStopped
	case p.killed.Load(), len(p.runs) > 0 && h.lease.Lapsed():
		p.end.why = endReplaced
	case p.hung:
		p.end.text = "it stopped answering health checks and was killed"
		p.end.exit = p.end.text
	}
	p.ready = false
	delete(p.u.procs, p)
	close(p.gone)
	h.notify()
}

// awaitExit kills a process that should have ended. When its stream has ended
// it is usually dying by itself: how it does so is worth a moment.
func (p *proc) awaitExit() {
	p.u.h.mu.Lock()
	kill := p.killed.Load() || p.hung
	p.u.h.mu.Unlock()
	if !kill {
		timer := time.NewTimer(time.Second)
		defer timer.Stop()
		select {
		case <-p.process.Exited():
		case <-timer.C:
		}
	}
	p.process.Kill()
}

// watch returns when the process or its task stream has ended, when ctx is
// done, or when the process answers no health check any more.
func (p *proc) watch(ctx context.Context) {
	cfg := p.u.h.cfg
	tick := time.NewTicker(cfg.HealthInterval)
	defer tick.Stop()
	probe := newReprobe(cfg.HealthInterval, cfg.ReprobeMax)
	misses := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.process.Exited():
			return
		case <-p.session.Done():
			return
		case <-tick.C:
		}
		if p.check(ctx, probe) {
			misses = 0
			continue
		}
		if misses++; misses >= cfg.HealthMisses && ctx.Err() == nil {
			p.u.h.mu.Lock()
			p.hung = !p.killed.Load()
			p.u.h.mu.Unlock()
			return
		}
	}
}

// check asks for the health and, when it is due, for the description. It
// reports whether the process answered.
func (p *proc) check(ctx context.Context, probe *reprobe) bool {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	health, err := p.process.Health(ctx)
	if err != nil {
		return false
	}
	h := p.u.h
	h.mu.Lock()
	was := p.ready
	h.mu.Unlock()
	if health.Ready == p.healthy && !probe.due(was) {
		return true
	}
	p.healthy = health.Ready
	d, err := p.describe(ctx)
	if err != nil {
		return false
	}
	h.mu.Lock()
	p.desc = d
	p.ready = d.Ready && health.Ready
	p.reasons = d.Reasons
	if d.Ready && !health.Ready {
		p.reasons = []string{health.Message}
	}
	is, reasons := p.ready, p.reasons
	replaced := p.u.learned(p)
	h.mu.Unlock()
	for _, old := range replaced {
		old.drain("a newer version or other settings took over")
	}
	if is != was {
		probe.reset()
		p.u.log.Info("executor readiness changed", zap.Bool("ready", is), zap.Strings("reasons", reasons))
	}
	return true
}

// kill kills the process on purpose; what is to blame has said so in its run.
func (p *proc) kill() {
	p.killNow()
	p.u.h.mu.Lock()
	p.ready, p.going = false, true
	p.u.h.mu.Unlock()
	p.process.Kill()
}

// killNow sends the signals of kill and leaves the rest to supervise.
func (p *proc) killNow() {
	p.killed.Store(true)
	p.process.KillNow()
}
