package redisconn

import "github.com/prometheus/client_golang/prometheus"

// poolCollector publishes the state of the pools when it is asked.
type poolCollector struct {
	m           *Manager
	connections *prometheus.Desc
	saturation  *prometheus.Desc
	active      *prometheus.Desc
	available   *prometheus.Desc
	maximum     *prometheus.Desc
}

func newPoolCollector(m *Manager) *poolCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"database"}, labels...), nil)
	}
	return &poolCollector{
		m:           m,
		connections: desc("autobot_redis_pool_connections", "Connections of the pool by state: active, idle, total.", "state"),
		saturation:  desc("autobot_redis_pool_saturation_ratio", "Connections in use, as a share of the most there may be."),
		active:      desc("autobot_redis_connections_active", "Connections in use."),
		available:   desc("autobot_redis_connections_available", "Connections that may still be taken."),
		maximum:     desc("autobot_redis_connections_max", "The most connections there may be."),
	}
}

func (c *poolCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.connections, c.saturation, c.active, c.available, c.maximum} {
		out <- d
	}
}

func (c *poolCollector) Collect(out chan<- prometheus.Metric) {
	for _, db := range c.m.used() {
		_ = db.breaker.state() // lets one whose time is over become half open
		pool := c.m.poolStatistics(db)
		gauge := func(d *prometheus.Desc, v float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{db.name}, labels...)...)
		}
		inUse, idle, most := float64(pool.InUseConnections), float64(pool.IdleConnections), float64(pool.MaxConnections)
		gauge(c.connections, inUse, "active")
		gauge(c.connections, idle, "idle")
		gauge(c.connections, inUse+idle, "total")
		gauge(c.saturation, inUse/most)
		gauge(c.active, inUse)
		gauge(c.available, max(most-inUse, 0))
		gauge(c.maximum, most)
	}
}
