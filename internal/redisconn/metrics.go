package redisconn

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what we publish. The names without "autobot_" are the ones that
// dashboards made for earlier programs look for.
type metrics struct {
	plainEvents        *prometheus.CounterVec
	plainState         *prometheus.GaugeVec
	connectionFailures *prometheus.CounterVec

	events       *prometheus.CounterVec
	state        *prometheus.GaugeVec
	failureCount *prometheus.GaugeVec

	requests     *prometheus.CounterVec
	operations   *prometheus.CounterVec
	latency      *prometheus.HistogramVec
	pipelines    *prometheus.CounterVec
	pipelineSize *prometheus.HistogramVec
	errors       *prometheus.CounterVec
	available    *prometheus.GaugeVec
	evicts       *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	r := &registrar{reg: reg}
	m := &metrics{
		plainEvents: r.counter("redis_circuit_breaker_events_total",
			"Changes of the circuit breaker: opened, half_open, closed; and rejected operations.", "database", "event"),
		plainState: r.gauge("redis_circuit_breaker_state",
			"State of the circuit breaker: 0 closed, 1 open, 2 half open.", "database"),
		connectionFailures: r.counter("redis_connection_failures_total",
			"Attempts to connect that failed.", "database"),
		events: r.counter("autobot_circuit_breaker_events_total",
			"Changes of the circuit breaker (opened, half_open, closed), failures that count for it, and rejected operations.",
			"database", "event", "reason"),
		state: r.gauge("autobot_circuit_breaker_state",
			"State of the circuit breaker: 0 closed, 1 open, 2 half open.", "database"),
		failureCount: r.gauge("autobot_circuit_breaker_failure_count",
			"Failures in a row that count for the circuit breaker.", "database"),
		requests: r.counter("autobot_redis_requests_total",
			"Operations; the label operation is always general.", "database", "operation", "status"),
		operations: r.counter("autobot_redis_operations_total",
			"Operations by command.", "database", "operation", "status"),
		latency: r.histogram("autobot_redis_operation_latency_seconds",
			"Time to the reply, without commands that wait for data.",
			[]float64{.0001, .0005, .001, .005, .01, .025, .05, .1, .25, .5}, "database", "operation"),
		pipelines: r.counter("autobot_redis_pipeline_operations_total", "Pipelines sent.", "database"),
		pipelineSize: r.histogram("autobot_redis_pipeline_size", "Commands per pipeline.",
			[]float64{1, 5, 10, 25, 50, 100, 250, 500, 1000}, "database"),
		errors: r.counter("autobot_redis_connection_errors_total",
			"Operations that failed because of the server or the way to it, by reason.", "database", "error_type"),
		available: r.gauge("autobot_redis_server_available",
			"1 if the last operation reached the server, else 0.", "database"),
		evicts: r.gauge("autobot_redis_eviction_possible",
			"1 if maxmemory-policy lets the server drop keys when it is full, so that tasks can be lost.", "database"),
	}
	return m, r.err
}

func (m *metrics) observe(database, operation string, took time.Duration, c class, lost bool) {
	status, outcome := "success", "success"
	if c.reason != "" {
		status, outcome = "failure", "error"
		m.errors.WithLabelValues(database, c.reason).Inc()
	}
	if c.server {
		m.events.WithLabelValues(database, "failure", c.reason).Inc()
	}
	m.requests.WithLabelValues(database, "general", status).Inc()
	m.operations.WithLabelValues(database, operation, outcome).Inc()
	if c.reason == "" && !blocks(operation) {
		m.latency.WithLabelValues(database, operation).Observe(took.Seconds())
	}
	up := 1.0
	if lost {
		up = 0
	}
	m.available.WithLabelValues(database).Set(up)
}

func (m *metrics) breakerEvent(database, event, reason string) {
	m.plainEvents.WithLabelValues(database, event).Inc()
	m.events.WithLabelValues(database, event, reason).Inc()
}

// registrar registers collectors. One that is registered already, by another
// Manager of the process, is shared.
type registrar struct {
	reg prometheus.Registerer
	err error
}

func register[C prometheus.Collector](r *registrar, c C) C {
	err := r.reg.Register(c)
	var again prometheus.AlreadyRegisteredError
	if errors.As(err, &again) {
		if existing, ok := again.ExistingCollector.(C); ok {
			return existing
		}
	}
	r.err = errors.Join(r.err, err)
	return c
}

func (r *registrar) counter(name, help string, labels ...string) *prometheus.CounterVec {
	return register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

func (r *registrar) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
}

func (r *registrar) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels))
}
