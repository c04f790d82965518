package client

import (
	"context"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/control/monitor"
	"github.com/autobot-fleet/autobot/internal/redisconn"
)

// MonitorOptions shape a monitor in this process.
type MonitorOptions struct {
	// Settings are the failover settings; monitor.Profile has two sets. The
	// zero value means the profile "seed".
	Settings monitor.FailoverConfig

	// ID names this process in the leader's lease. Empty: host name and a
	// random part.
	ID string

	// Log defaults to no logging, Metrics to unregistered metrics.
	Log     *zap.Logger
	Metrics prometheus.Registerer
}

// Monitor is a failover monitor that runs in this process.
type Monitor struct {
	m    *monitor.Monitor
	stop context.CancelFunc
	done chan struct{}
	once sync.Once
	err  error
}

// StartMonitor runs the failover monitor in this process, as a control plane
// would: with others it elects a leader, and an outage of Redis is waited out.
// It ends with ctx, Stop, or Close of the client. Only with Connect, and once
// at a time.
func (c *Client) StartMonitor(ctx context.Context, o MonitorOptions) (*Monitor, error) {
	d, ok := c.link.(*direct)
	if !ok {
		return nil, fmt.Errorf("run the monitor over HTTP: %w (the control plane runs one; to run one here use Connect)", ErrUnsupported)
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	m, err := monitor.New(monitor.Options{
		Backend: d.acting, Settings: o.Settings, ID: o.ID, IsWait: redisconn.Away, Reason: redisconn.Explain,
		Log: o.Log, Metrics: o.Metrics,
	})
	if err != nil {
		return nil, fmt.Errorf("start the monitor: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.monitor != nil && !c.monitor.ended() {
		return nil, fmt.Errorf("start the monitor: one runs already")
	}
	ctx, cancel := context.WithCancel(ctx) //nolint:gosec // Stop calls it
	out := &Monitor{m: m, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(out.done)
		out.err = m.Run(ctx)
	}()
	c.monitor = out
	return out, nil
}

// Stop ends the monitor, gives leadership up and waits until that is done.
func (m *Monitor) Stop() {
	m.once.Do(m.stop)
	<-m.done
}

// Leader reports whether this monitor is the one that acts.
func (m *Monitor) Leader() bool { return m.m.Leader() }

// Ready reports whether the monitor can do its work, else why not.
func (m *Monitor) Ready() (ok bool, reason string) { return m.m.Ready() }

// Scan looks for dead workers now and waits until their tasks have moved.
// Where another monitor leads it does nothing and says so.
func (m *Monitor) Scan(ctx context.Context) (ScanReport, error) {
	reply, err := m.m.Scan(ctx)
	if err != nil {
		return ScanReport{}, err
	}
	return scanReport(reply), nil
}

func (m *Monitor) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}
