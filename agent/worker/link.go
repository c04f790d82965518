package worker

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/logging"
)

// calm is how long nothing may fail before an outage counts as over, so that a
// flapping connection is one outage in the log.
const calm = 3 * time.Second

// awayBackoff caps the pause between two heartbeats that do not get through. It
// is shorter than that of the other loops: one loop that finds the server back
// is enough, it wakes the others. The first failure of any loop asks for a beat.
const awayBackoff = 500 * time.Millisecond

// link watches the connection to the queue for all loops together: however
// many of them meet an outage, it is one line when it starts and one when it
// ends. The first loop that gets through again ends the back-off of all.
type link struct {
	outage  *logging.Outage
	probe   func()        // called when an outage begins; must not block
	wake    func()        // called at each return; must not block
	returns atomic.Uint64 // how often a loop that had failed got through
	back    notifier      // broadcast at each return

	mu      sync.Mutex
	failing map[string]string // who cannot get through -> last error
	since   time.Time
	last    time.Time // newest failure
	logged  bool
}

func newLink(log *zap.Logger, probe, wake func()) *link {
	return &link{outage: logging.NewOutage(log, "reach Redis"), probe: probe, wake: wake, failing: map[string]string{}}
}

// failed notes that source could not make a call.
func (l *link) failed(source string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if len(l.failing) == 0 {
		l.since = now
		l.probe()
	}
	l.failing[source] = err.Error()
	l.last = now
	l.logged = true
	l.outage.Failed(err)
}

// ok notes that source got through. If it had failed before, the server is
// back, and whoever backs off may try at once.
func (l *link) ok(source string) {
	if l.clear(source) {
		l.returns.Add(1)
		l.back.broadcast()
		l.wake()
	}
}

// gaveUp notes that source does not try any more, and knows nothing.
func (l *link) gaveUp(source string) { l.clear(source) }

func (l *link) clear(source string) (failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, failed = l.failing[source]
	delete(l.failing, source)
	return failed
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
