package monitor

import (
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/queue"
)

// alarms finds tasks that nobody will ever claim: a queue with waiting tasks
// that no living worker watches. Such a queue of a task type also means that
// nobody serves the type (no_capable_worker). Each alarm is a metric and one
// log line at its start and at its end.
type alarms struct {
	log    *zap.Logger
	gauges *gauges
	seen   map[string]*alarm // queue -> alarm
}

type alarm struct {
	since  time.Time
	looks  int
	raised bool
}

// alarmLooks is how many looks running must agree: a fleet that starts, or a
// worker that restarts, raises nothing.
const alarmLooks = 2

// look takes in one list of queues. It is called from one goroutine.
func (a *alarms) look(queues []queue.QueueInfo) {
	waiting := map[string]int64{}
	for _, q := range queues {
		if q.Waiting > 0 && q.Watchers == 0 && !q.Paused {
			waiting[q.Name] = q.Waiting
		}
	}
	for name, n := range waiting {
		al := a.seen[name]
		if al == nil {
			al = &alarm{since: time.Now()}
			a.seen[name] = al
		}
		al.looks++
		if al.looks >= alarmLooks {
			a.raise(name, n, al)
		}
	}
	for name, al := range a.seen {
		if waiting[name] == 0 {
			a.clear(name, al)
		}
	}
}

func (a *alarms) raise(name string, n int64, al *alarm) {
	a.gauges.unwatched.WithLabelValues(label(name)).Set(float64(n))
	typ, prioritised := typeOf(name)
	if prioritised {
		a.gauges.noWorker.WithLabelValues(label(typ)).Set(1)
	}
	if al.raised {
		return
	}
	al.raised = true
	if prioritised {
		a.log.Warn("no_capable_worker: tasks wait and no living worker serves their type (start an agent with an executor for it)",
			zap.String("type", typ), zap.String("queue", name), zap.Int64("waiting", n))
		return
	}
	a.log.Warn("tasks wait in a queue that no living worker watches (add it to worker.queues of an agent)",
		zap.String("queue", name), zap.Int64("waiting", n))
}

func (a *alarms) clear(name string, al *alarm) {
	delete(a.seen, name)
	if !al.raised {
		return
	}
	a.gauges.unwatched.DeleteLabelValues(label(name))
	if typ, prioritised := typeOf(name); prioritised && !a.raisedFor(typ) {
		a.gauges.noWorker.DeleteLabelValues(label(typ))
	}
	a.log.Info("the queue is watched again or empty", zap.String("queue", name), zap.Duration("took", time.Since(al.since)))
}

func (a *alarms) raisedFor(typ string) bool {
	for name, al := range a.seen {
		if t, prioritised := typeOf(name); prioritised && t == typ && al.raised {
			return true
		}
	}
	return false
}

// typeOf reads the task type from a queue name "{priority}:{type}".
func typeOf(name string) (string, bool) {
	_, typ, two := strings.Cut(name, ":")
	return typ, two
}
