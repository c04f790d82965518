package artifacts

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	removed *prometheus.CounterVec
	refused prometheus.Counter
}

func newMetrics(s *Store, reg prometheus.Registerer) metrics {
	m := metrics{
		removed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "autobot_artifacts_removed_total", Help: "Artifacts removed, by reason (expired, quota).",
		}, []string{"reason"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "autobot_artifacts_refused_total", Help: "Uploads refused because quota or disk were full.",
		}),
	}
	if reg == nil {
		return m
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	for _, c := range []prometheus.Collector{
		m.removed, m.refused,
		gauge("autobot_artifacts_bytes", "Bytes of all stored artifacts.", func() float64 { _, b := s.Usage(); return float64(b) }),
		gauge("autobot_artifacts_files", "Number of stored artifacts.", func() float64 { n, _ := s.Usage(); return float64(n) }),
		gauge("autobot_artifacts_quota_bytes", "Limit of autobot_artifacts_bytes.", func() float64 { return float64(s.cfg.QuotaBytes) }),
	} {
		var twice prometheus.AlreadyRegisteredError
		if err := reg.Register(c); err != nil && !errors.As(err, &twice) {
			s.log.Warn("a metric is not exported: " + err.Error())
		}
	}
	return m
}

// Usage returns how many files the store holds and their bytes.
func (s *Store) Usage() (files int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.files), s.used
}
