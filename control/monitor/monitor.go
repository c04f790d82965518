package monitor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/autobot-fleet/autobot/queue"
)

// Backend is the part of a queue layout that a monitor needs.
type Backend interface {
	queue.MonitorSide
	Queues(ctx context.Context) ([]queue.QueueInfo, error)
	Worker(ctx context.Context, id string) (*queue.WorkerRecord, error)
	Watch(ctx context.Context, task string) (<-chan queue.Event, error)
}

// Options are what New needs. Backend is required.
type Options struct {
	Backend Backend
	// Settings are the failover settings; the zero value means the profile
	// "seed".
	Settings FailoverConfig
	// ID names this control plane in the lease. Empty: host name and a
	// random part, different in every process.
	ID string
	// IsWait reports whether an error means that the server does not serve
	// right now, so that nothing may be concluded from it. Nil: every error.
	IsWait func(error) bool
	// Reason shortens an error for people who may not see details. Nil: its
	// whole text.
	Reason func(error) string
	// Log defaults to no logging, Metrics to unregistered metrics.
	Log     *zap.Logger
	Metrics prometheus.Registerer
}

// Monitor is one control plane's monitor. Run runs it; the other methods may
// be called at any time from any goroutine.
type Monitor struct {
	current  atomic.Pointer[Backend]
	log      *zap.Logger
	settings atomic.Pointer[FailoverConfig]
	lead     *leadership
	faults   *faults
	gauges   *gauges
	alarms   *alarms

	scanMu    sync.Mutex // guards marks
	marks     *marks
	census    atomic.Pointer[judged]
	resets    atomic.Uint64 // how often the marks were forgotten
	outages   uint64        // outages seen by the newest look; guarded by scanMu
	orphans   orphans
	failovers failovers
	walks     walks
	reaper    reaper // of the reap loop alone

	// One per loop that acts only as the leader.
	wakeScan, wakeReap, wakePromote, wakeRetention, wakeDiscover chan struct{}

	earliest    atomic.Int64 // delayed_until_ms heard of since the last promotion, 0: none
	lastPromote time.Time    // of the promote loop alone
}

// New returns a monitor that has not started. It talks to nobody yet.
func New(o Options) (*Monitor, error) {
	if o.Backend == nil {
		return nil, errors.New("the monitor needs a queue backend")
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.IsWait == nil {
		o.IsWait = func(error) bool { return true }
	}
	if o.ID == "" {
		o.ID = defaultID()
	}
	if o.Settings.CheckInterval == 0 {
		o.Settings, _ = Profile("seed")
	}
	if problems := o.Settings.Validate(); len(problems) > 0 {
		return nil, fmt.Errorf("failover.%s %s", problems[0].Key, problems[0].Message)
	}
	gauges, err := newGauges(o.Metrics)
	if err != nil {
		return nil, err
	}
	log := o.Log.Named("monitor")
	m := &Monitor{
		log: log, gauges: gauges,
		alarms:    &alarms{log: log, gauges: gauges, seen: map[string]*alarm{}},
		marks:     newMarks(),
		failovers: failovers{running: map[string]*failover{}, slots: make(chan struct{}, parallelFailover)},

		wakeScan: make(chan struct{}, 1), wakeReap: make(chan struct{}, 1), wakePromote: make(chan struct{}, 1),
		wakeRetention: make(chan struct{}, 1), wakeDiscover: make(chan struct{}, 1),
	}
	m.settings.Store(&o.Settings)
	m.current.Store(&o.Backend)
	m.faults = newFaults(log, o.IsWait, m.pauseCap)
	if o.Reason != nil {
		m.faults.explain = o.Reason
	}
	m.lead = &leadership{
		backend: o.Backend, id: o.ID, log: log, faults: m.faults, settled: m.leadSettled,
		ttl: func() time.Duration { return leaseTTL(m.config().CheckInterval) },
	}
	return m, nil
}

// Run watches the fleet, and acts while this control plane leads, until ctx
// is done. It never fails because of the server: an outage is waited out. It
// may be called once.
func (m *Monitor) Run(ctx context.Context) error {
	m.failovers.mu.Lock()
	m.failovers.ctx = ctx
	m.failovers.mu.Unlock()

	// The lease outlives the loops that act under it.
	leadCtx, stopLead := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLead()
	var leader sync.WaitGroup
	leader.Go(func() { m.lead.run(leadCtx) })

	var loops errgroup.Group
	loops.Go(func() error { return m.loop(ctx, "scan", m.wakeScan, m.scanStep) })
	loops.Go(func() error { return m.loop(ctx, "reap", m.wakeReap, m.reapStep) })
	loops.Go(func() error { return m.loop(ctx, "promote", m.wakePromote, m.promoteStep) })
	loops.Go(func() error { return m.loop(ctx, "retention", m.wakeRetention, m.retentionStep) })
	loops.Go(func() error { return m.loop(ctx, "discover", m.wakeDiscover, m.discoverStep) })
	loops.Go(func() error { return m.loop(ctx, "gauges", nil, m.gaugesStep) })
	loops.Go(func() error { return m.watchLoop(ctx) })
	err := loops.Wait()
	m.failovers.wait()
	stopLead()
	leader.Wait()

	resignCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	m.lead.resign(resignCtx)
	return err
}

// loop calls step until ctx is done, each time after the pause that the step
// asked for or a wake-up. A step that fails is tried again with back-off,
// without end.
func (m *Monitor) loop(ctx context.Context, name string, wake <-chan struct{}, step func(context.Context) (time.Duration, error)) error {
	back := m.faults.backoff()
	for ctx.Err() == nil {
		pause, err := step(ctx)
		switch {
		case err == nil:
			m.faults.ok(name)
			back.Reset()
		case ctx.Err() != nil:
			return nil
		default:
			m.lead.denied(err)
			m.faults.report(name, err)
			pause = back.Next()
		}
		if !pauseFor(ctx, pause, wake) {
			return nil
		}
	}
	return nil
}

// leadSettled is told when leadership was won or lost.
func (m *Monitor) leadSettled(leader bool) {
	if !leader {
		m.gauges.leader.Set(0)
		return
	}
	m.gauges.leader.Set(1)
	for _, wake := range []chan struct{}{m.wakeScan, m.wakeReap, m.wakePromote, m.wakeRetention, m.wakeDiscover} {
		nudge(wake)
	}
}

// Status says what the monitor is doing.
type Status struct {
	ID     string `json:"id"`
	Leader bool   `json:"leader"`
	Epoch  int64  `json:"epoch,omitempty"`
	Outage string `json:"outage,omitempty"` // why Redis does not serve
}

// Status returns the present state.
func (m *Monitor) Status() Status {
	lease, leads := m.lead.lease()
	return Status{ID: m.lead.id, Leader: leads, Epoch: lease.Epoch, Outage: m.faults.outage()}
}

// Ready reports whether the monitor can do its work, else why not.
func (m *Monitor) Ready() (ok bool, reason string) {
	switch reason := m.faults.outage(); {
	case reason != "":
		return false, "Redis does not serve: " + reason
	case !m.lead.contact.Load():
		return false, "Redis has not answered yet"
	}
	return true, ""
}

// Leader reports whether this control plane leads.
func (m *Monitor) Leader() bool {
	_, leads := m.lead.lease()
	return leads
}

// Reload replaces the settings, and the backend when it is not nil (the same
// layout on the same server with other settings). Invalid settings are
// refused and change nothing.
func (m *Monitor) Reload(c FailoverConfig, backend Backend) error {
	if problems := c.Validate(); len(problems) > 0 {
		return fmt.Errorf("failover.%s %s", problems[0].Key, problems[0].Message)
	}
	m.settings.Store(&c)
	if backend != nil {
		m.current.Store(&backend)
	}
	nudge(m.wakeScan)
	return nil
}

func (m *Monitor) backend() Backend { return *m.current.Load() }

func (m *Monitor) config() FailoverConfig { return *m.settings.Load() }

// pauseCap is the longest pause between attempts while the server is away.
func (m *Monitor) pauseCap() time.Duration {
	if m.config().CheckInterval <= time.Second {
		return time.Second
	}
	return 2 * time.Second
}

// defaultID is readable and different in every process.
func defaultID() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "control"
	}
	return host + "-" + uuid.NewString()[:8]
}
