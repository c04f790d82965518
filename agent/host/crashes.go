package host

import "time"

// crashLog decides when an executor has crashed too often. The zero value has
// seen no crash.
type crashLog struct {
	limit    int           // crashes ...
	window   time.Duration // ... in this time disable it ...
	cooldown time.Duration // ... for this long; then one more crash does again

	recent    []time.Time
	until     time.Time // disabled until then
	probation time.Time // until then one crash is one too many
	last      string
}

// add notes a crash and reports whether it disabled the executor.
func (c *crashLog) add(now time.Time, why string) bool {
	c.last = why
	kept := c.recent[:0]
	for _, t := range c.recent {
		if now.Sub(t) < c.window {
			kept = append(kept, t)
		}
	}
	c.recent = append(kept, now)
	if len(c.recent) < c.limit && !now.Before(c.probation) {
		return false
	}
	if now.Before(c.until) {
		return false // was already: a process that outlived the others
	}
	c.until = now.Add(c.cooldown)
	c.probation = c.until.Add(c.window)
	c.recent = nil
	return true
}

// disabled reports whether it must not be started now.
func (c *crashLog) disabled(now time.Time) bool { return now.Before(c.until) }
