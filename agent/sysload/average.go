package sysload

import "time"

// sample holds what is averaged: counters that only grow, and the memory
// percentage of one moment.
type sample struct {
	at            time.Time // monotonic
	cpu           cpuTimes
	own           float64 // seconds used by the agent and its executors
	npuBusy       time.Duration
	npuKnown      bool
	memoryPercent float64
}

// averages are means over the window.
type averages struct {
	busyPercent   float64 // of all processors, without steal
	otherPercent  float64 // busy without the agent and its executors
	stealPercent  float64
	memoryPercent float64
	npuPercent    float64 // of one device; only if npuKnown
	npuKnown      bool
}

// window keeps the samples of the last span, and one older one as the start.
type window struct {
	span    time.Duration
	samples []sample
}

// add takes a sample and returns the averages up to it.
func (w *window) add(s sample) averages {
	w.samples = append(w.samples, s)
	first := 0
	for first+1 < len(w.samples) && s.at.Sub(w.samples[first+1].at) >= w.span {
		first++
	}
	w.samples = append(w.samples[:0], w.samples[first:]...)
	return average(w.samples)
}

// average computes the means between the first and the last sample. A single
// sample has no rates yet. Counters that went backwards (a machine that was
// moved or restored) count as no change.
func average(samples []sample) averages {
	first, last := samples[0], samples[len(samples)-1]
	a := averages{npuKnown: last.npuKnown}
	for _, s := range samples {
		a.memoryPercent += s.memoryPercent / float64(len(samples))
	}
	total := last.cpu.total - first.cpu.total
	if total <= 0 {
		return a
	}
	percent := func(from, to float64) float64 {
		return min(max(100*(to-from)/total, 0), 100)
	}
	a.busyPercent = percent(first.cpu.busy, last.cpu.busy)
	a.stealPercent = percent(first.cpu.steal, last.cpu.steal)
	a.otherPercent = max(a.busyPercent-percent(first.own, last.own), 0)
	if elapsed := last.at.Sub(first.at); elapsed > 0 && first.npuKnown {
		busy := float64(last.npuBusy-first.npuBusy) / float64(elapsed)
		a.npuPercent = min(max(100*busy, 0), 100)
	}
	return a
}
