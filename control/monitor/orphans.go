package monitor

import (
	"slices"
	"sync"

	"github.com/autobot-fleet/autobot/queue"
)

// maxOrphans bounds the ids remembered for one worker.
const maxOrphans = 10000

// orphans remembers running tasks whose owner has no heartbeat but is not
// judged dead yet, so that its one failover takes them along even when the
// worker's own set of tasks was lost.
type orphans struct {
	mu  sync.Mutex
	ids map[string]map[string]bool // worker -> task ids
}

// note adds ids of a worker.
func (o *orphans) note(worker string, ids []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids == nil {
		o.ids = map[string]map[string]bool{}
	}
	have := o.ids[worker]
	if have == nil {
		have = map[string]bool{}
		o.ids[worker] = have
	}
	for _, id := range ids {
		if len(have) < maxOrphans {
			have[id] = true
		}
	}
}

// take hands out and forgets the ids of a worker.
func (o *orphans) take(worker string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]string, 0, len(o.ids[worker]))
	for id := range o.ids[worker] {
		out = append(out, id)
	}
	delete(o.ids, worker)
	slices.Sort(out)
	return out
}

// prune forgets workers that beat again or have left the registry.
func (o *orphans) prune(c queue.Census) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for worker := range o.ids {
		if beats, registered := c.Workers[worker]; beats || !registered {
			delete(o.ids, worker)
		}
	}
}
