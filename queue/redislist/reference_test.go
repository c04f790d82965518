package redislist_test

import (
	"cmp"
	"slices"

	"github.com/autobot-fleet/autobot/queue"
)

// reference is the layout in plain Go, without Redis: what every move answers
// and what it leaves behind, as the documents of package queue say it. The
// property test TestReference makes each move on both and compares all of it.
//
// Lists are as Redis shows them: the head first, claims from the end.
type reference struct {
	tasks      map[string]*refTask
	waiting    map[string][]string // by queue
	processing map[string][]string
	inbox      map[string][]string // by worker
	owned      map[string][]string
	delayed    []string
	index      map[queue.Status][]string
	unique     map[string]string
	paused     []string
	cordoned   []string
	generation map[string]int64   // of the registered workers
	alive      map[string]bool    // has a heartbeat
	failover   map[string]*[3]int // counts of a failover in progress: orphaned, migrated, failed
	events     int                // in the failover log
}

type refTask struct {
	status     queue.Status
	priority   queue.Priority
	queue      string
	worker     string
	previous   string
	unique     string
	exclude    []string
	attempt    int64
	generation int64
	retries    int
	deaths     int
	crashes    int
	cancel     bool
}

const (
	refRetries = 2
	refDeaths  = 2
)

func newReference() *reference {
	return &reference{
		tasks: map[string]*refTask{}, waiting: map[string][]string{}, processing: map[string][]string{}, inbox: map[string][]string{},
		owned: map[string][]string{}, index: map[queue.Status][]string{}, unique: map[string]string{}, generation: map[string]int64{},
		alive: map[string]bool{}, failover: map[string]*[3]int{},
	}
}

func (t *refTask) typeQueue() string {
	return queue.TypeQueue(cmp.Or(t.priority, queue.PriorityNormal), "general")
}

func head(list map[string][]string, key, id string) { list[key] = slices.Insert(list[key], 0, id) }
func tail(list map[string][]string, key, id string) { list[key] = append(list[key], id) }

// remove takes the first entry from a list and says whether there was one.
func remove(list map[string][]string, key, id string) bool {
	i := slices.Index(list[key], id)
	if i >= 0 {
		list[key] = slices.Delete(list[key], i, i+1)
	}
	return i >= 0
}

func without(list []string, id string) []string {
	return slices.DeleteFunc(list, func(x string) bool { return x == id })
}

func (r *reference) own(worker, id string) {
	if !slices.Contains(r.owned[worker], id) {
		r.owned[worker] = append(r.owned[worker], id)
	}
}

func (r *reference) disown(worker, id string) { r.owned[worker] = without(r.owned[worker], id) }

// leave takes a task off the processing list that it is in and returns the
// queue that it came from.
func (r *reference) leave(id string, hint string) string {
	t := r.tasks[id]
	for _, name := range append([]string{t.queue, hint, t.typeQueue(), "general"}, modelQueues...) {
		if name != "" && remove(r.processing, name, id) {
			return name
		}
	}
	return cmp.Or(t.queue, t.typeQueue())
}

func (r *reference) end(id string, status queue.Status) {
	t := r.tasks[id]
	t.status = status
	r.index[status] = append(without(r.index[status], id), id)
	if t.unique != "" && r.unique[t.unique] == id {
		delete(r.unique, t.unique)
	}
}

// holder is the task that holds a unique key, "" when none does.
func (r *reference) holder(key string) string {
	id := r.unique[key]
	if t := r.tasks[id]; t == nil || t.status.Terminal() {
		return ""
	}
	return id
}

// again makes a task wait: at the front, the back, or put off.
func (r *reference) again(id, name string, delayed, front bool) {
	switch {
	case delayed:
		r.delayed = append(without(r.delayed, id), id)
	case front:
		tail(r.waiting, name, id)
	default:
		head(r.waiting, name, id)
	}
}

// handBack is a requeue that counts nothing.
func (r *reference) handBack(id, name string) {
	t := r.tasks[id]
	if t.cancel {
		r.end(id, queue.StatusCancelled)
		return
	}
	t.status, t.worker, t.queue = queue.StatusQueued, "", name
	r.again(id, name, false, true)
}

// unqueue takes a waiting task from wherever it is.
func (r *reference) unqueue(id string) {
	r.delayed = without(r.delayed, id)
	for _, lists := range []map[string][]string{r.waiting, r.processing, r.inbox} {
		for k := range lists {
			lists[k] = without(lists[k], id)
		}
	}
}

// death is what the end of a worker does to its running task.
func (r *reference) death(id, worker string, front bool) (requeued bool) {
	t := r.tasks[id]
	name := r.leave(id, "")
	r.disown(worker, id)
	if t.cancel {
		r.end(id, queue.StatusCancelled)
		return false
	}
	t.deaths++
	if t.retries >= refRetries || t.deaths >= refDeaths {
		r.end(id, queue.StatusFailedPermanent)
		return false
	}
	t.status, t.worker, t.previous, t.queue = queue.StatusQueued, "", worker, name
	t.retries++
	r.again(id, name, false, front)
	return true
}

func (r *reference) emptyInbox(worker string) {
	for len(r.inbox[worker]) > 0 {
		id := pop(r.inbox, worker)
		r.again(id, cmp.Or(r.tasks[id].queue, r.tasks[id].typeQueue()), false, false)
	}
}

func pop(list map[string][]string, key string) string {
	last := len(list[key]) - 1
	id := list[key][last]
	list[key] = list[key][:last]
	return id
}

// current is the error of a move that names a generation.
func (r *reference) current(worker string, generation int64) error {
	switch stored, known := r.generation[worker]; {
	case !known || stored < generation:
		return queue.ErrReregister
	case stored > generation:
		return queue.ErrSuperseded
	}
	return nil
}

// refClaims is what a claiming move answers.
type refClaims struct {
	claims, excluded []string
	cordoned         bool
	err              error
}

// take decides about an id that was taken from a queue and is in its processing
// list. It reports false when there was no slot.
func (r *reference) take(out *refClaims, worker string, generation int64, name, id string, slots *int) bool {
	t := r.tasks[id]
	if t.status != queue.StatusQueued {
		remove(r.processing, name, id)
		return true
	}
	if slices.Contains(t.exclude, worker) {
		remove(r.processing, name, id)
		out.excluded = append(out.excluded, id)
		if target := t.typeQueue(); target != name {
			t.queue = target
			r.again(id, target, false, false)
		} else {
			t.queue = name
			r.again(id, name, true, false)
		}
		return true
	}
	if *slots == 0 {
		remove(r.processing, name, id)
		tail(r.waiting, name, id)
		return false
	}
	*slots--
	t.status, t.worker, t.generation, t.queue = queue.StatusRunning, worker, generation, name
	t.attempt++
	r.own(worker, id)
	out.claims = append(out.claims, id)
	return true
}

func (r *reference) sweep(worker string, generation int64, slots int) (out refClaims) {
	if out.err = r.current(worker, generation); out.err != nil {
		return out
	}
	if out.cordoned = slices.Contains(r.cordoned, worker); out.cordoned {
		return out
	}
	for slots > 0 && len(r.inbox[worker]) > 0 {
		id := pop(r.inbox, worker)
		name := r.tasks[id].typeQueue()
		head(r.processing, name, id)
		r.take(&out, worker, generation, name, id, &slots)
	}
	for _, name := range modelQueues {
		for slots > 0 && len(r.waiting[name]) > 0 && !slices.Contains(r.paused, name) {
			id := pop(r.waiting, name)
			head(r.processing, name, id)
			r.take(&out, worker, generation, name, id, &slots)
		}
	}
	return out
}
