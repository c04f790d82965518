package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

// aftermath is how long after it was put right a fault may still cost an
// attempt: a worker that was away finds out at its next beats.
const aftermath = 10 * time.Second

// bounds is I4: no task was tried more often than it may be. An attempt that
// costs no retry needs a fault, or a neighbour that made the process be killed,
// during the life of the task; each of them accounts for one.
func (c *checker) bounds() Finding {
	f := Finding{Name: "I4", Says: "attempts stay within 1 + max_retries + what faults account for"}
	most, mostOf := 0, ""
	for _, s := range c.e.Tasks {
		t, ok := c.e.State.Tasks[s.ID]
		if !ok {
			continue
		}
		if t.Retries > s.MaxRetries {
			f.add("task %s has %d retries of %d", s.ID, t.Retries, s.MaxRetries)
		}
		if int64(c.starts[s.ID]) > t.Attempt {
			f.add("task %s began %d times in %d attempts", s.ID, c.starts[s.ID], t.Attempt)
		}
		limit := (1+s.Retries)*(1+s.MaxRetries) + c.allowance(t)
		if t.Attempt > int64(limit) {
			f.add("task %s has had %d attempts, %d at most can be accounted for", s.ID, t.Attempt, limit)
		}
		if c.starts[s.ID] > most {
			most, mostOf = c.starts[s.ID], s.ID
		}
	}
	f.Checked = fmt.Sprintf("%d starts of %d tasks, at most %d of one (%s)", c.allStarts(), len(c.e.Tasks), most, mostOf)
	return f
}

func (c *checker) allStarts() int {
	n := 0
	for _, times := range c.starts {
		n += times
	}
	return n
}

// allowance is how many faults and harmful neighbours there were while a task
// was under way.
func (c *checker) allowance(t TaskState) int {
	n := 0
	for _, s := range c.e.Spans {
		if s.From.Before(t.Ended) && s.To.Add(aftermath).After(t.Created) {
			n++
		}
	}
	from, _ := slices.BinarySearch(c.harms, t.Created.Add(-aftermath).UnixNano())
	to, _ := slices.BinarySearch(c.harms, t.Ended.UnixNano())
	return n + max(0, to-from)
}

// terminal is I5: what has ended changes only when an operator asks for it.
func (c *checker) terminal() Finding {
	f := Finding{Name: "I5", Says: "an end is final unless an operator retries"}
	if c.e.Events == nil {
		f.Checked = "not watched"
		return f
	}
	n := 0
	for _, s := range c.e.Tasks {
		events := c.e.Events(s.ID)
		n += len(events)
		changes, ends := 0, 0
		for i, e := range events {
			if !e.Status.Terminal() {
				continue
			}
			ends++
			if i < len(events)-1 {
				changes++
			}
		}
		if changes > s.Retries {
			f.add("task %s changed after its end: %s", s.ID, story(events))
		}
		if ends > 1+s.Retries {
			f.add("task %s has had %d outcomes: %s", s.ID, ends, story(events))
		}
	}
	f.Checked = fmt.Sprintf("%d changes of state", n)
	return f
}

func story(events []queue.Event) string {
	var out []string
	for _, e := range events {
		out = append(out, fmt.Sprintf("%s(%s)", e.Status, e.Worker))
	}
	return strings.Join(out, " ")
}

// memorySlack is what the memory of a server may have grown by without a task
// in it: client buffers, scripts, and what its allocator keeps in use.
const memorySlack = 8 << 20

// fixedKeys are those that do not depend on tasks.
var fixedKeys = []string{
	"workers:registered", "failover:log", "autobot:queues", "autobot:inboxes", "autobot:paused", "autobot:cordoned",
	"autobot:leader", "autobot:epoch", "autobot:missing",
}

// growth is I6: every key belongs to a task, a worker or the fixed few; what
// belongs to a task beside itself ends, and all of it goes with the retention.
func (c *checker) growth() Finding {
	f := Finding{Name: "I6", Says: "keys and memory go back to what retention keeps"}
	for key, ends := range c.e.State.Keys {
		if flaw := c.key(key, ends); flaw != "" {
			f.add("key %s %s", key, flaw)
		}
	}
	for _, key := range c.e.Retention.Keys {
		if !fixed(key) {
			f.add("key %s is there after the retention of everything", key)
		}
	}
	if grown := c.e.Retention.After - c.e.Retention.Before; grown > memorySlack {
		f.add("memory is %d bytes above what it was without tasks", grown)
	}
	f.Checked = fmt.Sprintf("%d keys, then %d; memory %.1f MB, before %.1f MB", len(c.e.State.Keys), len(c.e.Retention.Keys),
		float64(c.e.Retention.After)/1e6, float64(c.e.Retention.Before)/1e6)
	return f
}

// key says what is wrong with a key, "" when nothing is.
func (c *checker) key(key string, ends bool) string {
	rest, task := strings.CutPrefix(key, "task:")
	id, what, companion := strings.Cut(rest, ":")
	switch {
	case task:
		if _, known := c.known[id]; !known {
			return "belongs to no task"
		}
		if companion && !slices.Contains([]string{"result", "failure", "progress"}, what) {
			return "is not documented"
		}
		if companion && !ends {
			return "has no end"
		}
	case strings.HasPrefix(key, "autobot:completed"), strings.HasPrefix(key, "autobot:failed"), strings.HasPrefix(key, "autobot:cancelled"):
	case !fixed(key):
		return "should not be there when everything has ended"
	}
	return ""
}

func fixed(key string) bool {
	return slices.Contains(fixedKeys, key) || strings.HasPrefix(key, "worker:agent-")
}

// alive is I7: the programs lived, said the truth about themselves and did not
// flood their logs.
func (c *checker) alive() Finding {
	f := Finding{Name: "I7", Says: "programs live, are healthy and log within bounds"}
	lines, starts := 0, 0
	for _, p := range c.e.Programs {
		for _, flaw := range p.Flaws {
			f.add("%s %s", p.Name, flaw)
		}
		if p.Lines > p.Bound {
			f.add("%s logged %d lines, at most %d are right", p.Name, p.Lines, p.Bound)
		}
		lines += p.Lines
		starts += p.Starts
	}
	f.Checked = fmt.Sprintf("%d programs started %d times, %d lines logged", len(c.e.Programs), starts, lines)
	return f
}
