package logging

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// Outage logs a lasting fault once when it starts and once when it ends,
// however often it is met in between. It is safe for concurrent use.
//
//	outage := logging.NewOutage(log, "claim tasks")
//	for {
//		if err := claim(); err != nil {
//			outage.Failed(err)
//			continue
//		}
//		outage.Recovered()
//	}
type Outage struct {
	log  *zap.Logger
	what string

	mu    sync.Mutex
	since time.Time // zero while all is well
	count int
	last  string
}

// NewOutage returns an Outage for the activity named by what, which completes
// the sentences "cannot …" and "can … again".
func NewOutage(log *zap.Logger, what string) *Outage {
	return &Outage{log: log, what: what}
}

// Failed notes a failure. The first one is logged as a warning, later ones only
// at level debug, and only when their text differs from the one before.
func (o *Outage) Failed(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	o.mu.Lock()
	started := o.since.IsZero()
	changed := text != o.last
	if started {
		o.since = time.Now()
		o.count = 0
	}
	o.count++
	o.last = text
	o.mu.Unlock()

	switch {
	case started:
		o.log.Warn("cannot "+o.what+", will keep trying", zap.String("error", text))
	case changed:
		o.log.Debug("still cannot "+o.what, zap.String("error", text))
	}
}

// Recovered notes a success. The first one after a failure is logged, with how
// long the outage took, how many errors it had, and the last of them.
func (o *Outage) Recovered() {
	o.mu.Lock()
	since, count, last := o.since, o.count, o.last
	o.since, o.count, o.last = time.Time{}, 0, ""
	o.mu.Unlock()

	if since.IsZero() {
		return
	}
	o.log.Info("can "+o.what+" again", zap.Duration("took", time.Since(since).Round(time.Millisecond)),
		zap.Int("errors", count), zap.String("last_error", last))
}

// Since returns when the outage began; the zero time means that there is none.
func (o *Outage) Since() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.since
}
