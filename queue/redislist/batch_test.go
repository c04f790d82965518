package redislist_test

import (
	"slices"
	"testing"

	"github.com/autobot-fleet/autobot/queue"
)

// The processing list is read by people and by clients of other makes: what
// others work on keeps its place, wherever in the list a batch ends.
func TestABatchThatEndsLeavesTheOthersInPlace(t *testing.T) {
	for name, ends := range map[string][]int{
		"every other":           {1, 3, 5, 7, 9},
		"the newest":            {15, 16, 17, 18, 19},
		"the oldest":            {0, 1, 2, 3},
		"all":                   {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19},
		"few":                   {4, 8},
		"some new and some old": {0, 1, 2, 12, 16, 18, 19},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForeign(t)
			held := hold(t, f.rdb, f.g, 20)
			var done []queue.Fence
			var left []any
			for i := len(held) - 1; i >= 0; i-- {
				if slices.Contains(ends, i) {
					done = append(done, held[i])
				} else {
					left = append(left, held[i].ID)
				}
			}
			settled, _, err := f.b.Finish(t.Context(), "ours", outcomesOf(done), nil)
			f.ok(err)
			if len(settled) != len(done) || slices.ContainsFunc(settled, func(s queue.Settled) bool { return s != queue.SettledOK }) {
				t.Fatalf("settled %v", settled)
			}
			if left == nil {
				left = []any{}
			}
			f.want("LRANGE queue:normal:general:processing 0 -1", left)
			f.want("SCARD worker:ours:tasks", int64(len(left)))
		})
	}
}
