package monitor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/autobot-fleet/autobot/queue"
)

// buriedFor is how long a failed-over worker stays visible as down.
const buriedFor = time.Hour

// gauges are the monitor's metrics.
type gauges struct {
	leader, outage        prometheus.Gauge
	workerUp              *prometheus.GaugeVec
	failoverEvents        prometheus.Counter
	migratedTasks         *prometheus.CounterVec
	reapedIDs             *prometheus.CounterVec
	expired               prometheus.Counter
	depth, oldest, byPrio *prometheus.GaugeVec
	unwatched             *prometheus.GaugeVec
	noWorker              *prometheus.GaugeVec

	mu     sync.Mutex
	shown  map[string]bool      // workers with a series
	buried map[string]time.Time // failed over, not seen since
}

func newGauges(reg prometheus.Registerer) (*gauges, error) {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	gaugeVec := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counterVec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	g := &gauges{
		leader:         gauge("autobot_control_leader", "1 while this control plane holds the lease on leadership."),
		outage:         gauge("autobot_monitor_outage", "1 while the monitor waits for Redis to serve."),
		workerUp:       gaugeVec("autobot_worker_up", "1 while a registered worker has a heartbeat; 0 for an hour after it was failed over.", "worker_id"),
		failoverEvents: counter("autobot_failover_events_total", "Workers that this control plane failed over."),
		migratedTasks:  counterVec("autobot_failover_tasks_migrated_total", "Tasks of dead workers, by what became of them.", "outcome"),
		reapedIDs:      counterVec("autobot_reaped_tasks_total", "Ids found hanging in processing lists, by what became of them.", "outcome"),
		expired:        counter("autobot_retention_deleted_total", "Ended tasks deleted after their retention."),
		depth:          gaugeVec("autobot_task_queue_depth", "Tasks in a queue.", "queue", "state"),
		oldest:         gaugeVec("autobot_task_oldest_age_seconds", "How long the next task of a queue has been waiting.", "queue"),
		byPrio:         gaugeVec("autobot_task_queue_size", "Waiting tasks of all queues, by priority; queues without one count as normal.", "priority"),
		unwatched:      gaugeVec("autobot_task_queue_unwatched", "Waiting tasks of a queue that no living worker watches.", "queue"),
		noWorker:       gaugeVec("autobot_no_capable_worker", "1 while tasks of a type wait and no living worker serves it.", "task_type"),
		shown:          map[string]bool{},
		buried:         map[string]time.Time{},
	}
	for _, outcome := range []string{"requeued", "failed", "skipped"} {
		g.migratedTasks.WithLabelValues(outcome)
	}
	if reg == nil {
		return g, nil
	}
	for _, c := range []prometheus.Collector{
		g.leader, g.outage, g.workerUp, g.failoverEvents, g.migratedTasks, g.reapedIDs, g.expired,
		g.depth, g.oldest, g.byPrio, g.unwatched, g.noWorker,
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the monitor's metrics: %w", err)
		}
	}
	return g, nil
}

// fleet shows who is up. A worker that left cleanly disappears; one that was
// failed over stays at 0 for an hour, long enough for an alert.
func (g *gauges) fleet(c queue.Census) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, beats := range c.Workers {
		up := 0.0
		if beats {
			up = 1
			delete(g.buried, id)
		}
		g.workerUp.WithLabelValues(label(id)).Set(up)
		g.shown[id] = true
	}
	for id := range g.shown {
		if _, registered := c.Workers[id]; registered {
			continue
		}
		at, buried := g.buried[id]
		if buried && time.Since(at) < buriedFor {
			g.workerUp.WithLabelValues(label(id)).Set(0)
			continue
		}
		g.workerUp.DeleteLabelValues(label(id))
		delete(g.shown, id)
		delete(g.buried, id)
	}
}

func (g *gauges) failover(worker string) {
	g.failoverEvents.Inc()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.buried[worker] = time.Now()
	g.shown[worker] = true
	g.workerUp.WithLabelValues(label(worker)).Set(0)
}

func (g *gauges) migrated(m queue.Migration) {
	g.migratedTasks.WithLabelValues("requeued").Add(float64(m.Requeued))
	g.migratedTasks.WithLabelValues("failed").Add(float64(m.Failed))
	g.migratedTasks.WithLabelValues("skipped").Add(float64(m.Skipped))
}

func (g *gauges) reaped(r queue.ReapReply) {
	g.reapedIDs.WithLabelValues("removed").Add(float64(r.Removed))
	g.reapedIDs.WithLabelValues("requeued").Add(float64(len(r.Requeued)))
}

// queues shows the depths. A queue that is gone loses its series.
func (g *gauges) queues(queues []queue.QueueInfo) {
	g.depth.Reset()
	g.oldest.Reset()
	sizes := map[queue.Priority]int64{}
	for _, p := range queue.Priorities {
		sizes[p] = 0
	}
	for _, q := range queues {
		g.depth.WithLabelValues(label(q.Name), "waiting").Set(float64(q.Waiting))
		g.depth.WithLabelValues(label(q.Name), "processing").Set(float64(q.Processing))
		g.oldest.WithLabelValues(label(q.Name)).Set(q.OldestAge.Seconds())
		sizes[priorityOf(q.Name)] += q.Waiting
	}
	for p, n := range sizes {
		g.byPrio.WithLabelValues(string(p)).Set(float64(n))
	}
}

// label makes a name that anybody may have written into Redis fit for a metric.
func label(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// priorityOf reads the priority from a queue's name.
func priorityOf(name string) queue.Priority {
	head, _, two := strings.Cut(name, ":")
	if !two {
		return queue.PriorityNormal
	}
	p, err := queue.ParsePriority(head)
	if err != nil {
		return queue.PriorityNormal
	}
	return p
}

// gaugesStep publishes the depths of all queues and looks for alarms. Leader
// and standbys both do it: each is scraped on its own.
func (m *Monitor) gaugesStep(ctx context.Context) (time.Duration, error) {
	pause := min(max(m.config().CheckInterval, 5*time.Second), 15*time.Second)
	queues, err := m.listQueues(ctx)
	if err != nil {
		m.gauges.outage.Set(1)
		return 0, err
	}
	m.gauges.outage.Set(0)
	if m.faults.outage() != "" {
		m.gauges.outage.Set(1)
	}
	m.gauges.queues(queues)
	m.alarms.look(queues)
	return pause, nil
}

func (m *Monitor) listQueues(ctx context.Context) ([]queue.QueueInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	queues, err := m.backend().Queues(ctx)
	if err != nil {
		return nil, err
	}
	return queues, nil
}
