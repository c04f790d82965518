package agent

import (
	"context"
	"errors"
	"time"

	"github.com/autobot-fleet/autobot/internal/sdnotify"
)

const (
	lookEvery = 500 * time.Millisecond
	// readyWithin is the longest that a start may look unfinished: a queue
	// that cannot be reached is not a fault of this machine.
	readyWithin = 15 * time.Second
	// stopAhead is how far ahead the stop's limit is moved while draining.
	stopAhead = 30 * time.Second
)

// notifySystemd tells systemd when the agent is ready, what it does, that it
// lives, and that it is stopping (once work is done), until ctx is done.
func (a *Agent) notifySystemd(ctx, work context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var watchdog <-chan time.Time
	if interval, ok := sdnotify.WatchdogInterval(); ok {
		pet := time.NewTicker(interval)
		defer pet.Stop()
		watchdog = pet.C
	}
	stopped := work.Done()
	ready, told := false, ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-stopped:
			stopped = nil
			sdnotify.Stopping()
			sdnotify.ExtendTimeout(stopAhead)
			continue
		case <-watchdog:
			if a.liveness() == nil {
				sdnotify.Watchdog()
			}
			continue
		case <-tick.C:
		}
		s := a.Status()
		if line := statusLine(s); line != told {
			told = line
			sdnotify.Status(line)
		}
		switch {
		case stopped == nil:
			sdnotify.ExtendTimeout(stopAhead)
		case !ready && (s.Registered || !s.Redis.Connected && s.Redis.Error != "" || s.Redis.URL == "" || time.Since(a.started) > readyWithin):
			ready = true
			sdnotify.Ready()
		}
	}
}

// statusLine is the text of "systemctl status".
func statusLine(s Status) string {
	if s.Claiming {
		return "claiming"
	}
	return "not claiming: " + s.Reason
}

// liveness is nil while the loops of the worker move, or wait for good reason.
func (a *Agent) liveness() error {
	if q := a.link(); q != nil {
		return q.worker.Liveness()
	}
	return nil
}

// readiness is nil while the agent takes part in the fleet.
func (a *Agent) readiness() error {
	s := a.Status()
	switch {
	case !s.Registered, !s.Redis.Connected, s.Draining, s.Redis.URL == "":
		return errors.New(orElse(s.Reason, "the agent is starting"))
	}
	return nil
}
