package fleet

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// The values of Heartbeat.Status.
const (
	StatusActive   = "active"   // it claims when there is work and room
	StatusDraining = "draining" // it finishes what it has and takes nothing new
	StatusDegraded = "degraded" // it cannot claim now; Reason says why
)

// Heartbeat is the document a worker writes with each beat. The fields of the
// first group are those that every worker of the fleet writes, whoever wrote
// it; the others are ours and absent in foreign heartbeats.
type Heartbeat struct {
	WorkerID     string   `json:"worker_id"`
	Timestamp    float64  `json:"timestamp"` // Unix seconds on the worker's clock
	Load         float64  `json:"load"`      // tasks it owns
	TasksActive  int      `json:"tasks_active"`
	Capabilities []string `json:"capabilities"` // task types it serves now
	MemoryMB     float64  `json:"memory_mb"`    // resident memory of the worker process, MiB

	NodeID            string     `json:"node_id,omitempty"`
	Generation        int64      `json:"generation,omitempty"`
	Status            string     `json:"status,omitempty"`
	Reason            string     `json:"reason,omitempty"` // one sentence: why it is not claiming
	MaxConcurrent     int        `json:"max_concurrent,omitempty"`
	CPUPercent        float64    `json:"cpu_percent"` // busy without steal
	CPUStealPercent   float64    `json:"cpu_steal_percent"`
	LoadAvg           [3]float64 `json:"load_avg"` // 1, 5 and 15 minutes
	MemoryPercent     float64    `json:"memory_percent"`
	MemoryAvailableMB float64    `json:"memory_available_mb"`
	SwapPercent       float64    `json:"swap_percent"`
	DiskPercent       float64    `json:"disk_percent"` // file system of the spool
	UptimeSeconds     float64    `json:"uptime_seconds"`
	NPU               NPU        `json:"npu"`
	Executors         []Executor `json:"executors,omitempty"`
	Version           string     `json:"version,omitempty"`
	StartedAt         float64    `json:"started_at,omitempty"` // Unix seconds
	ClockSkewMS       float64    `json:"clock_skew_ms"`        // worker's clock minus the server's
}

// NPU says whether the worker's machine has a neural processor. BusyPercent
// is nil when the driver does not tell.
type NPU struct {
	Present     bool     `json:"present"`
	BusyPercent *float64 `json:"busy_percent,omitempty"`
}

// Executor is one executor of a worker, as told in its heartbeat.
type Executor struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Types   []string `json:"types"`
	State   string   `json:"state"`
}

// Marshal returns the document's JSON. Numbers that JSON cannot hold (NaN,
// infinities) become 0, so that a strange sensor never stops a heartbeat.
func (h Heartbeat) Marshal() json.RawMessage {
	h = h.finite()
	b, err := json.Marshal(h)
	if err != nil {
		// Strings, slices and finite numbers cannot fail to marshal.
		panic(fmt.Sprintf("marshal heartbeat: %v", err))
	}
	return b
}

// Time is the moment of the beat on the worker's clock, zero when unknown.
func (h Heartbeat) Time() time.Time { return unixSeconds(h.Timestamp) }

// Started is the moment the worker started, zero when unknown.
func (h Heartbeat) Started() time.Time { return unixSeconds(h.StartedAt) }

func (h Heartbeat) finite() Heartbeat {
	for _, f := range []*float64{
		&h.Timestamp, &h.Load, &h.MemoryMB, &h.CPUPercent, &h.CPUStealPercent,
		&h.LoadAvg[0], &h.LoadAvg[1], &h.LoadAvg[2], &h.MemoryPercent,
		&h.MemoryAvailableMB, &h.SwapPercent, &h.DiskPercent, &h.UptimeSeconds,
		&h.StartedAt, &h.ClockSkewMS,
	} {
		*f = finite(*f)
	}
	if h.NPU.BusyPercent != nil {
		v := finite(*h.NPU.BusyPercent)
		h.NPU.BusyPercent = &v
	}
	if h.Capabilities == nil {
		h.Capabilities = []string{}
	}
	return h
}

// finite turns NaN and the infinities into 0.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

// unixSeconds turns Unix seconds into a time; zero for what is no date
// between 1970 and 9999.
func unixSeconds(s float64) time.Time {
	const year10000 = 253402300800
	if s <= 0 || s >= year10000 {
		return time.Time{}
	}
	whole := int64(s)
	return time.Unix(whole, int64((s-float64(whole))*1e9)).UTC()
}
