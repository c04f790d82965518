package sysload

import (
	"context"
	"fmt"
	"time"

	"github.com/shirou/gopsutil/v3/cpu"
	"github.com/shirou/gopsutil/v3/disk"
	"github.com/shirou/gopsutil/v3/host"
	"github.com/shirou/gopsutil/v3/load"
	"github.com/shirou/gopsutil/v3/mem"
)

// This file is the only one that knows gopsutil.

// cpuTimes are seconds since boot, summed over all processors.
type cpuTimes struct {
	total float64 // all of it
	busy  float64 // work, without idle, waiting for the disk, and steal
	steal float64 // wanted to work and was kept from it by the hypervisor
}

// readCPU reads the counters themselves: the percentage functions of the
// library share one global state between all callers.
func readCPU(ctx context.Context) (cpuTimes, error) {
	all, err := cpu.TimesWithContext(ctx, false)
	if err != nil {
		return cpuTimes{}, fmt.Errorf("read processor times: %w", err)
	}
	if len(all) == 0 {
		return cpuTimes{}, fmt.Errorf("read processor times: the system lists no processor")
	}
	t := all[0]
	// Guest time is part of user time already.
	busy := t.User + t.System + t.Nice + t.Irq + t.Softirq
	return cpuTimes{total: busy + t.Idle + t.Iowait + t.Steal, busy: busy, steal: t.Steal}, nil
}

// readMemory reads the machine's memory and how much of its swap is in use.
func readMemory(ctx context.Context) (memory, float64, error) {
	m, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return memory{}, 0, fmt.Errorf("read memory: %w", err)
	}
	swapPercent := 0.0
	// A machine without swap is not an error.
	if s, err := mem.SwapMemoryWithContext(ctx); err == nil && s.Total > 0 {
		swapPercent = 100 * float64(s.Used) / float64(s.Total)
	}
	return memory{total: m.Total, available: m.Available}, swapPercent, nil
}

// readDisk reads the file system that holds path. It may block for ever.
func readDisk(path string) (diskUsage, error) {
	u, err := disk.Usage(path)
	if err != nil {
		return diskUsage{}, fmt.Errorf("read free space of %s: %w", path, err)
	}
	return diskUsage{free: u.Free, percent: u.UsedPercent}, nil
}

func readLoadAvg(ctx context.Context) ([3]float64, error) {
	l, err := load.AvgWithContext(ctx)
	if err != nil {
		return [3]float64{}, fmt.Errorf("read load average: %w", err)
	}
	return [3]float64{l.Load1, l.Load5, l.Load15}, nil
}

func readUptime(ctx context.Context) (time.Duration, error) {
	s, err := host.UptimeWithContext(ctx)
	if err != nil {
		return 0, fmt.Errorf("read uptime: %w", err)
	}
	return time.Duration(s) * time.Second, nil
}
