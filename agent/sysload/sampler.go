package sysload

import (
	"context"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	sampleEvery  = 2 * time.Second
	averageOver  = 10 * time.Second
	diskPatience = 2 * time.Second
	mib          = 1 << 20
)

// Reading is what was measured last. Percentages are 0..100; those of the CPU
// and of memory are means over ten seconds. A value that could not be read is 0.
type Reading struct {
	Time            time.Time
	CPUPercent      float64 // busy, without steal, of all processors
	OtherCPUPercent float64 // busy without the agent and its executors; only measured while the CPU limit is on
	StealPercent    float64 // kept from working by the hypervisor
	LoadAvg         [3]float64

	MemoryPercent     float64 // of the machine or the tightest cgroup
	MemoryAvailableMB float64
	MemoryTotalMB     float64
	SwapPercent       float64
	ResidentMB        float64 // of the agent itself

	DiskPath    string
	DiskPercent float64
	DiskFreeMB  float64
	DiskStuck   time.Duration // the file system has not answered for so long
	DiskError   string
	Refusal     string // why Config.Also closes the gate

	Uptime         time.Duration
	NPUPresent     bool
	NPUBusyPercent *float64 // nil: the driver does not tell
}

// Config says what to measure.
type Config struct {
	Dir    string // a directory on the file system whose free space counts
	Limits Limits
	// Also closes the gate for a reason of its own about the same file system;
	// may be nil. It is asked where it may block, and never from Closed.
	Also func() (reason string, closed bool)
}

// ask reads the free space, and what else there is to say.
func (c Config) ask(dir string) (diskUsage, error) {
	u, err := readDisk(dir)
	if err == nil && c.Also != nil {
		if reason, closed := c.Also(); closed {
			u.refusal = reason
		}
	}
	return u, err
}

// Sampler measures the machine and is the load gate. Reading and Closed may be
// called from any goroutine and never block on the system.
type Sampler struct {
	log     *zap.Logger
	procDir string
	devDir  string
	sysDir  string
	pid     int
	disk    diskProbe
	window  window
	broken  map[string]bool // what cannot be read, so that it is logged once

	mu      sync.Mutex
	limits  Limits
	reading Reading
	gate    gate
	reason  string
}

// New returns a Sampler that has taken its first sample (without rates: those
// need two), so that a full disk is known before the first claim.
func New(cfg Config, log *zap.Logger) *Sampler {
	s := &Sampler{
		log:     log.Named("sysload"),
		procDir: "/proc", devDir: "/dev", sysDir: "/sys",
		pid:    os.Getpid(),
		disk:   diskProbe{path: cfg.Dir, ask: cfg.ask},
		window: window{span: averageOver},
		broken: map[string]bool{},
		limits: cfg.Limits,
	}
	s.sample(context.Background())
	return s
}

// Run takes samples until ctx is done. It always returns nil.
func (s *Sampler) Run(ctx context.Context) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.sample(ctx)
		}
	}
}

// Reading returns the newest values.
func (s *Sampler) Reading() Reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reading
}

// Closed reports whether the machine is too loaded to take more work, and why
// in one sentence.
func (s *Sampler) Closed() (reason string, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason, s.reason != ""
}

// SetLimits replaces the limits and decides anew at once.
func (s *Sampler) SetLimits(l Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits = l
	s.reason = s.gate.update(s.reading, l)
}

// sample measures once. It is only called by New and Run.
func (s *Sampler) sample(ctx context.Context) {
	s.mu.Lock()
	limits := s.limits
	s.mu.Unlock()

	now := sample{at: time.Now()}
	r := Reading{Time: now.at, DiskPath: s.disk.path}
	var err error

	now.cpu, err = readCPU(ctx)
	s.note("cpu", err)
	// Finding our own processes costs a read per process of the machine.
	var resident uint64
	if limits.CPUPercent < 100 {
		now.own, resident, err = readOwn(s.procDir, s.pid)
	} else {
		resident, err = readResident(s.procDir, s.pid)
	}
	s.note("own processes", err)
	r.ResidentMB = float64(resident) / mib

	machine, swap, err := readMemory(ctx)
	s.note("memory", err)
	dirs, err := cgroupDirs(s.procDir)
	s.note("cgroup", err)
	usable := tightest(machine, dirs)
	now.memoryPercent = usable.usedPercent()
	r.MemoryAvailableMB, r.MemoryTotalMB, r.SwapPercent = float64(usable.available)/mib, float64(usable.total)/mib, swap

	r.LoadAvg, err = readLoadAvg(ctx)
	s.note("load average", err)
	r.Uptime, err = readUptime(ctx)
	s.note("uptime", err)
	r.NPUPresent, now.npuBusy, now.npuKnown = readNPU(s.devDir, s.sysDir)

	u, stuck, err := s.disk.read(diskPatience)
	s.note("disk", err)
	r.DiskFreeMB, r.DiskPercent, r.DiskStuck, r.Refusal = float64(u.free)/mib, u.percent, stuck, u.refusal
	if err != nil {
		r.DiskError = err.Error()
	}

	a := s.window.add(now)
	r.CPUPercent, r.OtherCPUPercent, r.StealPercent, r.MemoryPercent = a.busyPercent, a.otherPercent, a.stealPercent, a.memoryPercent
	if a.npuKnown {
		r.NPUBusyPercent = &a.npuPercent
	}
	s.publish(r)
}

// publish makes a reading visible and tells when the gate moves.
func (s *Sampler) publish(r Reading) {
	s.mu.Lock()
	before := s.reason
	s.reading = r
	s.reason = s.gate.update(r, s.limits)
	after := s.reason
	s.mu.Unlock()
	switch {
	case before == "" && after != "":
		s.log.Warn("no new tasks: the machine is too loaded", zap.String("reason", after))
	case before != "" && after == "":
		s.log.Info("taking tasks again: the load is below the limits")
	}
}

// note logs a fault of one sensor when it starts and when it ends.
func (s *Sampler) note(sensor string, err error) {
	switch {
	case err != nil && !s.broken[sensor]:
		s.broken[sensor] = true
		s.log.Warn("a sensor cannot be read; its values are 0 until it can", zap.String("sensor", sensor), zap.Error(err))
	case err == nil && s.broken[sensor]:
		s.broken[sensor] = false
		s.log.Info("a sensor can be read again", zap.String("sensor", sensor))
	}
}
