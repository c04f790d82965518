package worker

import (
	"context"
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

// goneAfter is how long an outage lasts before a drain reckons with it.
const goneAfter = 2 * time.Second

// awayBackoff caps the pause between two heartbeats that do not get through. It
// is shorter than that of the other loops: one loop that finds the server back
// is enough, it wakes the others. Failures of other loops ask for a beat.
const awayBackoff = 500 * time.Millisecond

// link watches the connection to the queue for all loops together: however
// many of them meet an outage, it is one line when it starts and one when it
// ends. The first loop that gets through again ends the back-off of all.
type link struct {
	outage  *logging.Outage
	probe   func()            // asks for a heartbeat; must not block
	wake    func()            // called at each return; must not block
	returns atomic.Uint64     // how often a loop that had failed got through
	back    notifier          // broadcast at each return
	told    func(error) error // see Options.Told
	over    context.Context
	giveUp  context.CancelFunc // ends over: nobody waits for answers any more

	mu      sync.Mutex
	failing map[string]failure // who cannot get through
	since   time.Time          // of the first of them
	last    time.Time          // newest failure
	probed  time.Time          // newest probe
	logged  bool
}

// failure is what stands in the way of one loop.
type failure struct {
	text  string // the last error
	since time.Time
}

func newLink(log *zap.Logger, probe, wake func(), told func(error) error) *link {
	l := &link{told: told, outage: logging.NewOutage(log, "reach Redis"), probe: probe, wake: wake, failing: map[string]failure{}}
	l.over, l.giveUp = context.WithCancel(context.Background())
	return l
}

// call is the context of one call to the queue. It does not end with the
// agent, for a drain still has outcomes to deliver, but with the drain.
func (l *link) call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(l.over, callLimit)
}

// failed notes that source could not make a call.
func (l *link) failed(source string, err error) {
	err = l.told(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if len(l.failing) == 0 {
		l.since = now
	}
	f, known := l.failing[source]
	if !known {
		f.since = now
	}
	// A heartbeat that fails goes on by itself. One that got through between
	// two outages does not, and a waiter that blocks again cannot tell so yet.
	if _, beating := l.failing[sourceHeart]; !beating && source != sourceHeart && now.Sub(l.probed) >= awayBackoff {
		l.probed = now
		l.probe()
	}
	f.text = err.Error()
	l.failing[source] = f
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
		if f, ok := l.failing[source]; ok {
			return l.since, f.text
		}
	}
	for source, f := range l.failing {
		return l.since, source + ": " + f.text
	}
	return l.since, ""
}

// gone reports whether outcomes or heartbeats have not got through for so long
// that it is not just a broken connection.
func (l *link) gone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, source := range []string{sourceHeart, sourceClaims} {
		if f, ok := l.failing[source]; ok && time.Since(f.since) >= goneAfter {
			return true
		}
	}
	return false
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
