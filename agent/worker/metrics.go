package worker

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what the worker counts.
type metrics struct {
	running  prometheus.Gauge
	finished *prometheus.CounterVec // by outcome
	settled  *prometheus.CounterVec // by what the queue answered
	dropped  prometheus.Counter
	claims   prometheus.Histogram // round trip of calls that claim
	waited   prometheus.Histogram // due -> claimed
	runtime  *prometheus.HistogramVec
	beats    *prometheus.CounterVec
	notes    *prometheus.CounterVec
	claimed  prometheus.Counter
}

// newMetrics registers the metrics with reg; nil keeps them unexported. A
// second worker on one registry shares them.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "autobot_worker_" + name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "autobot_worker_" + name, Help: help, Buckets: buckets})
	}
	m := &metrics{
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "autobot_worker_tasks_running",
			Help: "Claims the worker holds now, including those whose outcome is being delivered."}),
		finished: counter("tasks_finished_total", "Attempts that ended, by outcome.", "outcome"),
		settled:  counter("outcomes_settled_total", "Outcomes by what the queue answered; stale ones had lost their claim.", "answer"),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "autobot_worker_tasks_dropped_total",
			Help: "Claims given up without an outcome: taken away or fenced."}),
		claims: histogram("claim_seconds", "Round trip of calls that claim tasks.", prometheus.ExponentialBuckets(0.0002, 2, 16)),
		waited: histogram("task_wait_seconds", "Time from a task becoming due to its claim, on the server's clock.", prometheus.ExponentialBuckets(0.001, 2, 22)),
		runtime: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "autobot_worker_task_run_seconds",
			Help: "Time an attempt ran, by task type.", Buckets: prometheus.ExponentialBuckets(0.002, 2, 20)}, []string{"type"}),
		beats: counter("heartbeats_total", "Heartbeats by result.", "result"),
		notes: counter("claim_notes_total", "Ids met by a claim and not run, by kind (duplicate, missing_task, ...).", "kind"),
		claimed: prometheus.NewCounter(prometheus.CounterOpts{Name: "autobot_worker_tasks_claimed_total",
			Help: "Tasks claimed."}),
	}
	if reg == nil {
		return m, nil
	}
	return m, errors.Join(
		share(reg, &m.running), share(reg, &m.finished), share(reg, &m.settled), share(reg, &m.dropped), share(reg, &m.claims),
		share(reg, &m.waited), share(reg, &m.runtime), share(reg, &m.beats), share(reg, &m.notes), share(reg, &m.claimed))
}

// share registers c, or takes the one that is registered under its name.
func share[C prometheus.Collector](reg prometheus.Registerer, c *C) error {
	err := reg.Register(*c)
	var there prometheus.AlreadyRegisteredError
	if errors.As(err, &there) {
		if same, ok := there.ExistingCollector.(C); ok {
			*c = same
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("worker metrics: %w", err)
	}
	return nil
}
