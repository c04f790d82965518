package agent

import "time"

// Status is what an agent tells about itself: GET /status of the local API.
type Status struct {
	Claiming bool   `json:"claiming"`
	Reason   string `json:"reason,omitempty"` // one sentence: why it is not claiming

	WorkerID      string    `json:"worker_id"`
	NodeID        string    `json:"node_id"`
	Generation    int64     `json:"generation"`
	Registered    bool      `json:"registered"`
	Draining      bool      `json:"draining"`
	Version       string    `json:"version"`
	PID           int       `json:"pid"`
	StartedAt     time.Time `json:"started_at"`
	UptimeSeconds float64   `json:"uptime_seconds"`
	Paired        bool      `json:"paired"`

	MaxConcurrent int       `json:"max_concurrent"`
	Running       []Running `json:"running"`
	Types         []string  `json:"types"`  // task types served now
	Queues        []string  `json:"queues"` // watched, in claiming order

	LastBeat     time.Time        `json:"last_beat,omitzero"` // last heartbeat that Redis confirmed
	ClaimMillis  float64          `json:"claim_round_trip_ms"`
	ClockSkewMS  float64          `json:"clock_skew_ms"` // this clock minus that of Redis
	Redis        RedisStatus      `json:"redis"`
	Executors    []ExecutorStatus `json:"executors"`
	Load         LoadStatus       `json:"load"`
	ControlURL   string           `json:"control_url,omitempty"`
	API          string           `json:"api,omitempty"` // host:port of the local API, empty when off
	StateDir     string           `json:"state_dir"`
	ConfigFiles  []string         `json:"config_files"`
	ConfigErrors string           `json:"config_error,omitempty"` // why the last reload changed nothing
}

// Running is one task that the agent holds.
type Running struct {
	ID             string    `json:"task_id"`
	Attempt        int64     `json:"attempt"`
	Type           string    `json:"type"`
	Queue          string    `json:"queue"`
	Executor       string    `json:"executor,omitempty"`
	Stage          string    `json:"stage"`
	StartedAt      time.Time `json:"started_at,omitzero"`
	RunningSeconds float64   `json:"running_seconds"`
}

// RedisStatus says how the connection to the queue is.
type RedisStatus struct {
	URL       string `json:"url,omitempty"` // without password
	Connected bool   `json:"connected"`
	Error     string `json:"error,omitempty"`

	// Warnings are settings of the server that endanger tasks.
	Warnings []string `json:"warnings,omitempty"`
}

// ExecutorStatus is one executor.
type ExecutorStatus struct {
	Name          string   `json:"name"`
	Version       string   `json:"version"`
	Engine        string   `json:"engine,omitempty"`
	EngineVersion string   `json:"engine_version,omitempty"`
	Path          string   `json:"path"`
	State         string   `json:"state"` // starting, ready, not_ready, crashed, disabled, quarantined, draining
	Reasons       []string `json:"reasons"`
	Types         []Type   `json:"types"`
	Concurrency   int      `json:"concurrency"` // tasks at once in all its processes
	InFlight      int      `json:"in_flight"`
	PIDs          []int    `json:"pids"`
	Crashes       int      `json:"crashes"`
	// Confinement is what ends the processes that it starts with it: cgroup,
	// which all of them are in, or process group, which one can leave.
	Confinement string `json:"confinement,omitempty"`
}

// Type is a task type that an executor serves. Times are seconds, 0 is unset.
type Type struct {
	Type           string   `json:"type"`
	Ops            []string `json:"ops"`
	DefaultTimeout float64  `json:"default_timeout,omitempty"`
	MaxTimeout     float64  `json:"max_timeout,omitempty"`
}

// LoadStatus is the state of the machine.
type LoadStatus struct {
	GateClosed        bool       `json:"gate_closed"`
	Reason            string     `json:"reason,omitempty"`
	CPUPercent        float64    `json:"cpu_percent"`
	CPUStealPercent   float64    `json:"cpu_steal_percent"`
	LoadAvg           [3]float64 `json:"load_avg"`
	MemoryPercent     float64    `json:"memory_percent"`
	MemoryAvailableMB float64    `json:"memory_available_mb"`
	SwapPercent       float64    `json:"swap_percent"`
	DiskPercent       float64    `json:"disk_percent"`
	DiskFreeMB        float64    `json:"disk_free_mb"`
	NPUPresent        bool       `json:"npu_present"`
}
