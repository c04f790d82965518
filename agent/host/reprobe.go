package host

import (
	"time"

	"github.com/autobot-fleet/autobot/internal/backoff"
)

// describeEvery is how often a ready executor is asked what it serves: an
// engine may have been removed.
const describeEvery = 30 * time.Second

// reprobe spaces out the questions to an executor: one that is not ready is
// asked with growing pauses, so that an engine installed later is found.
type reprobe struct {
	pause *backoff.Backoff
	last  time.Time
	wait  time.Duration
}

func newReprobe(minimum, maximum time.Duration) *reprobe {
	r := &reprobe{pause: backoff.New(minimum, maximum), last: time.Now()}
	r.wait = r.pause.Next()
	return r
}

// due reports whether to ask now, and takes note that it is done.
func (r *reprobe) due(ready bool) bool {
	wait := r.wait
	if ready {
		wait = describeEvery
	}
	if time.Since(r.last) < wait {
		return false
	}
	r.last = time.Now()
	r.wait = r.pause.Next()
	return true
}

func (r *reprobe) reset() {
	r.pause.Reset()
	r.last = time.Now()
	r.wait = r.pause.Next()
}
