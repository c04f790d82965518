package agent

import (
	"encoding/json"
	"math"
	"time"

	"github.com/autobot-fleet/autobot/agent/worker"
	"github.com/autobot-fleet/autobot/fleet"
)

// document adds the load of the machine to what the worker knows.
func (a *Agent) document(s worker.State) json.RawMessage {
	h := s.Heartbeat(time.Now())
	r := a.sampler.Reading()
	h.MemoryMB = tenths(r.ResidentMB)
	h.CPUPercent = tenths(r.CPUPercent)
	h.CPUStealPercent = tenths(r.StealPercent)
	h.LoadAvg = r.LoadAvg
	h.MemoryPercent = tenths(r.MemoryPercent)
	h.MemoryAvailableMB = tenths(r.MemoryAvailableMB)
	h.SwapPercent = tenths(r.SwapPercent)
	h.DiskPercent = tenths(r.DiskPercent)
	h.UptimeSeconds = r.Uptime.Seconds()
	h.NPU = fleet.NPU{Present: r.NPUPresent, BusyPercent: r.NPUBusyPercent}
	return h.Marshal()
}

// tenths rounds to one digit after the point: more is noise.
func tenths(x float64) float64 { return math.Round(x*10) / 10 }
