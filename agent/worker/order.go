package worker

import (
	"strings"

	"github.com/autobot-fleet/autobot/queue"
)

// weights are the shares in which the priorities go first in a weighted sweep.
// What has no priority in its name goes with the last group.
var weights = []int{8, 4, 2, 1}

// wheel chooses which priority goes first, by smooth weighted round robin: a
// group that was passed over gains credit until it is its turn, so none
// starves however full the others are.
type wheel struct {
	credit [4]int
}

// next returns queues in the order of the next weighted sweep.
func (w *wheel) next(queues []string) []string {
	var groups [4][]string
	for _, q := range queues {
		g := group(q)
		groups[g] = append(groups[g], q)
	}
	first, total := -1, 0
	for i, share := range weights {
		if len(groups[i]) == 0 {
			continue
		}
		w.credit[i] += share
		total += share
		if first < 0 || w.credit[i] > w.credit[first] {
			first = i
		}
	}
	if first < 0 {
		return queues
	}
	w.credit[first] -= total
	out := append(make([]string, 0, len(queues)), groups[first]...)
	for i, g := range groups {
		if i != first {
			out = append(out, g...)
		}
	}
	return out
}

func group(name string) int {
	head, _, two := strings.Cut(name, ":")
	if two {
		for i, p := range queue.Priorities {
			if head == string(p) {
				return i
			}
		}
	}
	return len(weights) - 1
}
