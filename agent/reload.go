package agent

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/agent/worker"
	"github.com/autobot-fleet/autobot/internal/logging"
)

// Reload reads the configuration again, as soon as Run has built the parts, and
// applies what can change while the agent runs: limits, slots, plain queues,
// labels, executor settings, the way to the control plane, the log level. A
// configuration with a fault changes nothing; the fault is the error, is
// logged, and stays in the status. Settings that only a restart can change are
// named in the log.
func (a *Agent) Reload() error {
	err := a.reload()
	a.mu.Lock()
	a.configError = ""
	if err != nil {
		a.configError = oneLine(err)
	}
	a.mu.Unlock()
	if err != nil {
		a.log.Error("the configuration could not be reloaded; nothing has changed", zap.Error(err))
	}
	return err
}

func (a *Agent) reload() error {
	if a.o.Load == nil {
		return errNoReload
	}
	select {
	case <-a.assembled:
	case <-a.ended:
		return errors.New("the agent has stopped")
	}
	next, _, err := a.o.Load()
	if err != nil {
		return err
	}
	level, err := logging.ParseLevel(next.Log.Level)
	if err != nil {
		return err
	}
	current := a.config()
	if current.Control != next.Control {
		if err := a.upload.set(next.Control); err != nil {
			return err
		}
		a.spool.SetUploader(a.upload.forSpool())
	}
	if q := a.link(); q != nil {
		err := q.worker.Reload(worker.Settings{
			MaxConcurrent: next.Worker.MaxConcurrent, PlainQueues: next.Worker.Queues, Labels: next.Worker.Labels,
		})
		if err != nil {
			return fmt.Errorf("apply the settings of the worker: %w", err)
		}
	}
	a.sampler.SetLimits(loadLimits(next.Limits))
	a.spool.SetFreeMin(freeMin(next.Limits))
	a.host.Reload(next.Executors.Settings)
	if a.o.Level != (zap.AtomicLevel{}) {
		a.o.Level.SetLevel(level)
	}
	later := a.adopt(*next)
	a.spool.SetResultTTL(a.config().Failover.ResultTTL)
	a.log.Info("the configuration was reloaded", zap.Strings("needs_restart", later))
	select {
	case a.reloaded <- struct{}{}:
	default:
	}
	return nil
}

// adopt makes next the configuration, except for what only a restart can
// change, and returns the keys of the latter that differ.
func (a *Agent) adopt(next Config) (later []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	keep := func(key string, current, wanted any) {
		c, w := reflect.ValueOf(current).Elem(), reflect.ValueOf(wanted).Elem()
		if !reflect.DeepEqual(c.Interface(), w.Interface()) {
			later = append(later, key)
			w.Set(c)
		}
	}
	old := &a.cfg
	if a.queue != nil { // without a queue its address is what was waited for
		keep("redis", &old.Redis, &next.Redis)
		keep("failover", &old.Failover, &next.Failover)
		keep("worker.profile", &old.Worker.Profile, &next.Worker.Profile)
		keep("worker.heartbeat_interval", &old.Worker.HeartbeatInterval, &next.Worker.HeartbeatInterval)
		keep("worker.heartbeat_timeout", &old.Worker.HeartbeatTimeout, &next.Worker.HeartbeatTimeout)
		keep("worker.drain_timeout", &old.Worker.DrainTimeout, &next.Worker.DrainTimeout)
		keep("worker.fence", &old.Worker.Fence, &next.Worker.Fence)
		keep("worker.order", &old.Worker.Order, &next.Worker.Order)
	}
	keep("worker.id", &old.Worker.ID, &next.Worker.ID)
	keep("executors.dirs", &old.Executors.Dirs, &next.Executors.Dirs)
	keep("executors.trust", &old.Executors.Trust, &next.Executors.Trust)
	keep("engines", &old.Engines, &next.Engines)
	keep("http", &old.HTTP, &next.HTTP)
	keep("artifacts", &old.Artifacts, &next.Artifacts)
	keep("state_dir", &old.StateDir, &next.StateDir)
	keep("log.format", &old.Log.Format, &next.Log.Format)
	a.cfg = next
	return later
}

// oneLine joins the lines of an error for places that show a single one.
func oneLine(err error) string { return strings.Join(strings.Split(err.Error(), "\n"), "; ") }
