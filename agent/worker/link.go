package worker

import (
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/logging"
)

// calm is how long nothing may fail before an outage counts as over, so that a
// flapping connection is one outage in the log.
const calm = 3 * time.Second

// link watches the connection to the queue for all loops together: however
// many of them meet an outage, it is one line when it starts and one when it
// ends.
type link struct {
	outage *logging.Outage

	mu      sync.Mutex
	failing map[string]string // who cannot get through -> last error
	since   time.Time
	last    time.Time // newest failure
	logged  bool
}

func newLink(log *zap.Logger) *link {
	return &link{outage: logging.NewOutage(log, "reach Redis"), failing: map[string]string{}}
}

// failed notes that source could not make a call.
func (l *link) failed(source string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if len(l.failing) == 0 {
		l.since = now
	}
	l.failing[source] = err.Error()
	l.last = now
	l.logged = true
	l.outage.Failed(err)
}

// ok notes that source got through, or gave up what it was trying.
func (l *link) ok(source string) {
	l.mu.Lock()
	delete(l.failing, source)
	l.mu.Unlock()
}

// tick ends the outage in the log once it has been calm for a while.
func (l *link) tick(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.logged && len(l.failing) == 0 && now.Sub(l.last) >= calm {
		l.logged = false
		l.outage.Recovered()
	}
}

// away says since when somebody cannot get through, and why; the zero time
// when all is well.
func (l *link) away() (since time.Time, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failing) == 0 {
		return time.Time{}, ""
	}
	for _, source := range []string{sourceHeart, sourceClaims, sourceCommands} {
		if text, ok := l.failing[source]; ok {
			return l.since, text
		}
	}
	for source, text := range l.failing {
		return l.since, source + ": " + text
	}
	return l.since, ""
}

// blocked reports whether source is among those who cannot get through.
func (l *link) blocked(source string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, bad := l.failing[source]
	return bad
}

// The sources of link.failed beside the waiters.
const (
	sourceHeart    = "heartbeat"
	sourceClaims   = "claims"
	sourceCommands = "commands"
)

func waiterSource(queue string) string { return fmt.Sprintf("waiter on queue %q", queue) }
