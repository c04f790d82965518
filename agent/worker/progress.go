package worker

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/queue"
)

// progressEvery is the shortest time between two progress events of one task;
// the last one of a run is exempt.
const progressEvery = 500 * time.Millisecond

// progress is how far a run is. Its zero value is ready for use.
type progress struct {
	mu     sync.Mutex
	seq    int
	best   int // highest percentage so far
	known  bool
	latest progressEvent
	dirty  bool // latest has not been sent
	sent   time.Time
}

// progressEvent is a progress event as stored and published.
type progressEvent struct {
	Seq     int       `json:"seq"`
	Percent int       `json:"percent"` // -1: unknown; never falls
	Stage   string    `json:"stage,omitempty"`
	Done    int64     `json:"done"`
	Total   int64     `json:"total"`
	Unit    string    `json:"unit,omitempty"`
	Message string    `json:"message,omitempty"`
	Time    time.Time `json:"ts"`
}

// note takes an executor's event in.
func (p *progress) note(e executors.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Percent >= 0 && (!p.known || e.Percent > p.best) {
		p.best, p.known = min(e.Percent, 100), true
	}
	percent := -1
	if p.known {
		percent = p.best
	}
	p.latest = progressEvent{
		Percent: percent, Stage: clip(e.Stage, 64), Done: e.Done, Total: e.Total, Unit: clip(e.Unit, 64),
		Message: clip(e.Message, executors.MaxProgress), Time: time.Now().UTC().Truncate(time.Millisecond),
	}
	p.dirty = true
}

// reached is the percentage (-1: unknown) and the stage last told.
func (p *progress) reached() (int, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return -1, p.latest.Stage
	}
	return p.best, p.latest.Stage
}

// next returns the event to be sent now, if any; else when one is due (zero:
// nothing waits). final ignores the pace.
func (p *progress) next(now time.Time, final bool) (json.RawMessage, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dirty {
		return nil, time.Time{}
	}
	if due := p.sent.Add(progressEvery); !final && now.Before(due) {
		return nil, due
	}
	p.seq++
	p.latest.Seq = p.seq
	p.sent, p.dirty = now, false
	doc, err := json.Marshal(p.latest)
	if err != nil {
		return nil, time.Time{} // text, numbers and a time always marshal
	}
	return doc, time.Time{}
}

// again marks an event that could not be sent.
func (p *progress) again() {
	p.mu.Lock()
	p.dirty = true
	p.mu.Unlock()
}

// publisher sends progress events, those of all tasks together.
type publisher struct {
	w     *Worker
	wake  chan struct{}
	order chan struct{} // holds a token during a call, so that events of a task keep their order
}

func newPublisher(w *Worker) *publisher {
	return &publisher{w: w, wake: make(chan struct{}, 1), order: make(chan struct{}, 1)}
}

// note takes an event of r in.
func (p *publisher) note(r *run, e executors.Progress) {
	r.progress.note(e)
	poke(p.wake)
}

// loop sends what is due until ctx is done.
func (p *publisher) loop(ctx context.Context) {
	for {
		due := p.sendDue()
		timer := time.NewTimer(time.Until(due))
		if due.IsZero() {
			timer.Stop()
			select {
			case <-ctx.Done():
				return
			case <-p.wake:
			}
			continue
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// sendDue sends the events that are due and returns when the next one is.
func (p *publisher) sendDue() time.Time {
	w := p.w
	now := time.Now()
	w.mu.Lock()
	var runs []*run
	if w.mayPublish(now) {
		for _, r := range w.runs {
			if !r.ended && !r.dropped {
				runs = append(runs, r)
			}
		}
	}
	w.mu.Unlock()
	return p.send(runs, now, false)
}

// flush sends the last events of runs whose outcome is about to be delivered.
func (p *publisher) flush(runs []*run) { p.send(runs, time.Now(), true) }

func (p *publisher) send(runs []*run, now time.Time, final bool) (due time.Time) {
	p.order <- struct{}{}
	defer func() { <-p.order }()
	var updates []queue.ProgressUpdate
	var from []*run
	for _, r := range runs {
		doc, later := r.progress.next(now, final)
		if doc != nil {
			updates = append(updates, queue.ProgressUpdate{Fence: r.claim.Fence(), JSON: doc})
			from = append(from, r)
		} else if !later.IsZero() && (due.IsZero() || later.Before(due)) {
			due = later
		}
	}
	if len(updates) == 0 {
		return due
	}
	ctx, cancel := p.w.link.call()
	defer cancel()
	if err := p.w.o.Backend.ReportProgress(ctx, p.w.o.WorkerID, updates); err != nil {
		p.w.log.Debug("progress could not be sent", zap.Error(err))
		for _, r := range from {
			r.progress.again()
		}
		if due.IsZero() {
			due = now.Add(progressEvery)
		}
	}
	return due
}
