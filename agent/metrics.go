package agent

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/autobot-fleet/autobot/internal/buildinfo"
)

// registerMetrics publishes what the agent itself knows; the parts publish
// their own.
func (a *Agent) registerMetrics() {
	gauge := func(name, help string, value func() float64) {
		a.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "autobot_agent_" + name, Help: help}, value))
	}
	gauge("claiming", "1 while the agent claims tasks.", func() float64 {
		return truth(a.Status().Claiming)
	})
	gauge("load_gate_closed", "1 while the machine is too loaded to take more work.", func() float64 {
		_, closed := a.sampler.Closed()
		return truth(closed)
	})
	gauge("cpu_percent", "Busy share of all processors over 10 s, without steal.", func() float64 { return a.sampler.Reading().CPUPercent })
	gauge("cpu_steal_percent", "Share of processor time that the hypervisor took, over 10 s.", func() float64 { return a.sampler.Reading().StealPercent })
	gauge("memory_percent", "Memory in use over 10 s, of the machine or the tightest cgroup.", func() float64 { return a.sampler.Reading().MemoryPercent })
	gauge("disk_free_bytes", "Free space on the file system of the spool.", func() float64 { return a.sampler.Reading().DiskFreeMB * (1 << 20) })
	gauge("npu_present", "1 if the machine has a neural processor.", func() float64 { return truth(a.sampler.Reading().NPUPresent) })
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "autobot_agent_info", Help: "Always 1; the labels say which agent this is.",
		ConstLabels: prometheus.Labels{"worker": a.workerID, "version": buildinfo.Version, "commit": buildinfo.Commit},
	})
	info.Set(1)
	a.registry.MustRegister(info)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
