package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/queue"
)

// The modes of Options.Fence.
const (
	// FenceKill ends all work when the worker's lease is about to lapse.
	FenceKill = "kill"
	// FenceFinish lets work go on: for tasks where a second run does no harm.
	FenceFinish = "finish"
)

// The values of Options.Order.
const (
	// OrderStrict empties the queues of a higher priority first.
	OrderStrict = "strict"
	// OrderWeighted lets each priority go first in its share of the sweeps
	// (8:4:2:1), so that a low one never starves.
	OrderWeighted = "weighted"
)

// PlainAuto in Options.PlainQueues stands for the plain queues that go with
// the task types served now.
const PlainAuto = "auto"

// Options configure a Worker. Fields without a default are required.
type Options struct {
	// Backend is the queue; Heartbeat is the same queue over a connection of
	// its own. Default Backend.
	Backend   queue.WorkerSide
	Heartbeat queue.WorkerSide
	Executors Executors
	Spool     Spool
	// Gate may be nil: always open.
	Gate Gate
	// Document makes the heartbeat document; nil: State.Heartbeat alone.
	Document Document

	WorkerID string
	NodeID   string // differs between machines and between boots
	Version  string
	Labels   map[string]string
	// PlainQueues are watched beside those of the task types; PlainAuto is
	// one of them by default.
	PlainQueues   []string
	MaxConcurrent int    // tasks at once, 1..10000
	Order         string // OrderStrict (default) or OrderWeighted
	Fence         string // FenceKill (default) or FenceFinish

	HeartbeatInterval time.Duration // default 15s
	HeartbeatTTL      time.Duration // at least two intervals; default 3 intervals
	// DrainTimeout is how long running tasks may go on after Run's context is
	// done; 0 hands them back at once, negative takes the default 30s.
	DrainTimeout time.Duration
	// MaxBackoff caps the pause between attempts while the server is away.
	// Default 2s.
	MaxBackoff time.Duration
	// ProbeWait is how long the first registration waits for the executors to
	// be probed. Default 10s.
	ProbeWait time.Duration
	// HangLimit is how long a loop may go without completing an iteration or
	// a bounded wait before Liveness reports it. Default 60s.
	HangLimit time.Duration

	// StateDir keeps the newest generation and the mark of an unclean exit.
	// Told puts what an error of the queue means to people in front of it.
	// Default: errors stay as they are.
	Told func(error) error

	StateDir string
	Log      *zap.Logger
	Metrics  prometheus.Registerer // nil: not exported
}

// withDefaults fills what was left out and checks the rest.
func (o Options) withDefaults() (Options, error) {
	if o.Heartbeat == nil {
		o.Heartbeat = o.Backend
	}
	if o.Told == nil {
		o.Told = func(err error) error { return err }
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.PlainQueues == nil {
		o.PlainQueues = []string{PlainAuto}
	}
	setText(&o.Order, OrderStrict)
	setText(&o.Fence, FenceKill)
	setDuration(&o.HeartbeatInterval, 15*time.Second)
	setDuration(&o.HeartbeatTTL, 3*o.HeartbeatInterval)
	setDuration(&o.MaxBackoff, 2*time.Second)
	setDuration(&o.ProbeWait, 10*time.Second)
	setDuration(&o.HangLimit, 60*time.Second)
	if o.DrainTimeout < 0 {
		o.DrainTimeout = 30 * time.Second
	}
	return o, o.check()
}

func (o Options) check() error {
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(o.Backend != nil, "worker: no queue backend given")
	require(o.Executors != nil, "worker: no executors given")
	require(o.Spool != nil, "worker: no spool given")
	require(o.StateDir != "", "worker: no state folder given (state_dir)")
	require(o.NodeID != "", "worker: no node id given")
	if err := queue.CheckWorkerID(o.WorkerID); err != nil {
		errs = append(errs, fmt.Errorf("worker.id: %w", err))
	}
	require(o.MaxConcurrent >= 1 && o.MaxConcurrent <= maxSlots,
		"worker.max_concurrent: must be 1..%d, got %d", maxSlots, o.MaxConcurrent)
	require(o.HeartbeatTTL >= 2*o.HeartbeatInterval,
		"heartbeat_timeout: must be at least two intervals (%v), got %v", 2*o.HeartbeatInterval, o.HeartbeatTTL)
	require(o.Order == OrderStrict || o.Order == OrderWeighted, "worker.order: must be %s or %s, got %q", OrderStrict, OrderWeighted, o.Order)
	require(o.Fence == FenceKill || o.Fence == FenceFinish, "worker.fence: must be %s or %s, got %q", FenceKill, FenceFinish, o.Fence)
	for _, q := range o.PlainQueues {
		if err := queue.CheckQueue(q); err != nil {
			errs = append(errs, fmt.Errorf("worker.queues: %w", err))
		}
	}
	return errors.Join(errs...)
}

const maxSlots = 10000

func setText(s *string, def string) {
	if *s == "" {
		*s = def
	}
}

func setDuration(d *time.Duration, def time.Duration) {
	if *d <= 0 {
		*d = def
	}
}
