package sysload

import (
	"fmt"
	"time"
)

// resumeBelow is how many points a percentage has to fall below its limit
// before the gate opens again, so that it does not flutter.
const resumeBelow = 5

// Limits say when a machine is too loaded to take more work.
type Limits struct {
	CPUPercent    float64 // work of others on all processors; 100 and above: off
	MemoryPercent float64 // memory in use; 100 and above: off
	DiskFreeMB    float64 // free space that has to stay, MiB; 0: off
}

// gate remembers which limits are exceeded.
type gate struct {
	cpu, memory, disk bool
}

// update decides anew for a reading. The reason is one sentence about the
// first limit that is exceeded; "" when the gate is open.
func (g *gate) update(r Reading, l Limits) (reason string) {
	g.disk = tooLittle(g.disk, r.DiskFreeMB, l.DiskFreeMB)
	g.memory = tooMuch(g.memory, r.MemoryPercent, l.MemoryPercent)
	g.cpu = tooMuch(g.cpu, r.OtherCPUPercent, l.CPUPercent)
	switch {
	case l.DiskFreeMB > 0 && r.DiskStuck > 0:
		return fmt.Sprintf("the disk of %s has not answered for %s", r.DiskPath, r.DiskStuck.Round(time.Second))
	case l.DiskFreeMB > 0 && r.DiskError != "":
		return "the free disk space is unknown: " + r.DiskError
	case g.disk:
		return fmt.Sprintf("the disk of %s has only %.0f MB free (limits.disk_free_mb %.0f; resumes at %.0f MB)",
			r.DiskPath, r.DiskFreeMB, l.DiskFreeMB, enough(l.DiskFreeMB))
	case r.Refusal != "":
		return r.Refusal
	case g.memory:
		return fmt.Sprintf("memory is %.0f %% used (limits.memory_percent %.0f; resumes below %.0f %%)",
			r.MemoryPercent, l.MemoryPercent, l.MemoryPercent-resumeBelow)
	case g.cpu:
		return fmt.Sprintf("the CPU is %.0f %% busy with other work (limits.cpu_percent %.0f; resumes below %.0f %%)",
			r.OtherCPUPercent, l.CPUPercent, l.CPUPercent-resumeBelow)
	}
	return ""
}

// tooMuch closes above the limit and opens again resumeBelow points below it.
func tooMuch(closed bool, percent, limit float64) bool {
	if limit >= 100 {
		return false
	}
	if closed {
		return percent > limit-resumeBelow
	}
	return percent > limit
}

// tooLittle closes below the limit and opens again a little above it.
func tooLittle(closed bool, free, limit float64) bool {
	if limit <= 0 {
		return false
	}
	if closed {
		return free < enough(limit)
	}
	return free < limit
}

// enough is the free space at which a gate closed by limit opens: as many
// points of the limit above it as the percentages have below theirs.
func enough(limit float64) float64 { return limit * (100 + resumeBelow) / 100 }
