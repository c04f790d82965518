package apiwire

import (
	"fmt"
	"slices"
	"strings"

	"github.com/autobot-fleet/autobot/internal/nearest"
	"github.com/autobot-fleet/autobot/queue"
)

// QueueNote is what deserves to be said about a queue that is about to be
// paused or resumed, "" for nothing: a queue may be paused before its first
// task, and a name may be mistyped.
func QueueNote(name string, pause bool, queues []queue.QueueInfo, workers []queue.WorkerRecord) string {
	var known, paused []string
	for _, q := range queues {
		known = append(known, q.Name)
		if q.Paused {
			paused = append(paused, q.Name)
		}
	}
	if !pause {
		if slices.Contains(paused, name) {
			return ""
		}
		return "it was not paused" + nearestQueue(name, paused)
	}
	if slices.Contains(known, name) {
		return ""
	}
	const unused = "no task has used this queue yet"
	for _, w := range workers {
		if !w.Alive {
			continue
		}
		if slices.Contains(w.Queues, name) {
			return unused
		}
		known = append(known, w.Queues...)
	}
	return unused + " and no living worker serves it" + nearestQueue(name, known)
}

// nearestQueue names the known queue that may have been meant: the one with the
// same name and a priority, else the one with the fewest slips.
func nearestQueue(name string, known []string) string {
	slices.Sort(known)
	near := nearest.By(slices.Compact(known), 1, func(k string) (int, bool) {
		if len(k) > 200 || len(name) > 200 {
			return 0, false
		}
		if _, tail, ok := strings.Cut(k, ":"); ok && tail == name {
			return 0, true
		}
		far := nearest.Distance(name, k)
		return far, far <= max(2, len(name)/2)
	})
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf("; nearest: %s", near[0])
}
