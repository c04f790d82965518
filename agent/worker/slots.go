package worker

import (
	"slices"
	"sort"

	"github.com/autobot-fleet/autobot/queue"
)

// stateReady is the state of an executor that takes tasks.
const stateReady = "ready"

// served is what the executors take at one moment: which task types, in how
// many slots, and so which queues are to be watched. It never changes.
type served struct {
	executors []ExecutorStatus
	slots     []int          // of each executor, 0 unless it is ready
	types     map[string]int // type -> index of the executor that runs it
	info      map[string]TypeStatus
	names     []string       // the types, sorted
	queues    []string       // watched, in strict claiming order
	owner     map[string]int // queue of one type -> index of its executor
}

// serve works out what is served. When two executors offer a type, the first
// one that is ready gets it.
func serve(status []ExecutorStatus, plain []string) *served {
	s := &served{
		executors: status, slots: make([]int, len(status)),
		types: map[string]int{}, info: map[string]TypeStatus{}, owner: map[string]int{},
	}
	for i, e := range status {
		if e.State != stateReady {
			continue
		}
		s.slots[i] = max(e.Concurrency, 1)
		for _, t := range e.Types {
			if _, taken := s.types[t.Type]; taken || queue.CheckType(t.Type) != nil {
				continue
			}
			s.types[t.Type] = i
			s.info[t.Type] = t
			s.names = append(s.names, t.Type)
		}
	}
	sort.Strings(s.names)
	if len(s.names) == 0 {
		return s
	}
	s.queues = queue.WatchedQueues(s.names, s.plain(plain))
	for _, t := range s.names {
		i := s.types[t]
		s.owner[t] = i
		for _, p := range queue.Priorities {
			s.owner[queue.TypeQueue(p, t)] = i
		}
	}
	return s
}

// plain resolves the configured plain queues. A name that is a served type is
// watched already.
func (s *served) plain(names []string) []string {
	var out []string
	add := func(name string) {
		if _, typ := s.types[name]; !typ && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, name := range names {
		if name != PlainAuto {
			add(name)
			continue
		}
		if s.servesAny("npu_inference", "openvino", "vision") || s.byExecutor("openvino") {
			add("npu_tasks")
		}
		if s.servesAny("tts", "embedding", "ai_processing") {
			add("ai_stack_tasks")
		}
	}
	return out
}

func (s *served) servesAny(types ...string) bool {
	for _, t := range types {
		if _, ok := s.types[t]; ok {
			return true
		}
	}
	return false
}

func (s *served) byExecutor(name string) bool {
	for _, i := range s.types {
		if s.executors[i].Name == name {
			return true
		}
	}
	return false
}

// executor names the executor of a type, "" when none is ready.
func (s *served) executor(typ string) string {
	if i, ok := s.types[typ]; ok {
		return s.executors[i].Name
	}
	return ""
}

// room is the free slots of each executor and in all, when the given numbers
// are used and limit tasks may run at once.
func (s *served) room(used map[string]int, running, limit int) (free []int, total int) {
	free = make([]int, len(s.slots))
	sum := 0
	for i, n := range s.slots {
		free[i] = max(n-used[s.executors[i].Name], 0)
		sum += free[i]
	}
	return free, max(min(limit-running, sum), 0)
}

// open lists the watched queues from which something could be taken now: not
// those of a type whose executor is full, and not those in skip.
func (s *served) open(queues []string, free []int, skip map[string]bool) []string {
	out := make([]string, 0, len(queues))
	for _, q := range queues {
		if i, typed := s.owner[q]; typed && free[i] == 0 {
			continue
		}
		if !skip[q] {
			out = append(out, q)
		}
	}
	return out
}
