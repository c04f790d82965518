package host

import "github.com/prometheus/client_golang/prometheus"

// collector reports executors as they are when it is asked.
type collector struct {
	h                            *Host
	up, crashes, inFlight, slots *prometheus.Desc
}

func newCollector(h *Host) *collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("autobot_executor_"+name, help, []string{"executor"}, nil)
	}
	return &collector{
		h:        h,
		up:       desc("up", "1 if the executor takes tasks now, else 0."),
		crashes:  desc("crashes_total", "Processes of the executor that died unexpectedly, or did not start."),
		inFlight: desc("in_flight", "Tasks that run in the executor now."),
		slots:    desc("slots", "Tasks the executor can run at once now."),
	}
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.up
	ch <- c.crashes
	ch <- c.inFlight
	ch <- c.slots
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	type sums struct{ up, crashes, inFlight, slots float64 }
	byName := map[string]*sums{}
	for _, s := range c.h.Status() {
		m := byName[s.Name]
		if m == nil {
			m = &sums{}
			byName[s.Name] = m
		}
		if s.State == StateReady {
			m.up = 1
		}
		m.crashes = float64(s.Crashes)
		m.inFlight += float64(s.InFlight)
		m.slots += float64(s.Concurrency)
	}
	for name, m := range byName {
		ch <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, m.up, name)
		ch <- prometheus.MustNewConstMetric(c.crashes, prometheus.CounterValue, m.crashes, name)
		ch <- prometheus.MustNewConstMetric(c.inFlight, prometheus.GaugeValue, m.inFlight, name)
		ch <- prometheus.MustNewConstMetric(c.slots, prometheus.GaugeValue, m.slots, name)
	}
}
