package worker

import (
	"slices"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/queue"
)

// aboutQueue reports whether a note is about a queue rather than an id in it:
// its key, or that of its processing list, holds something else than a list.
func aboutQueue(n queue.Note) bool { return n.Kind == queue.NoteQuarantined && n.ID == "" }

// noteBroken takes in what a sweep says about queues that are no lists. Such a
// queue has no waiter, which would only hear the same again and again; each
// sweep looks whether it still is one. It is one line in the log when that
// begins and one when it ends.
func (c *claimer) noteBroken(reply queue.ClaimReply, r queue.ClaimRequest) {
	w := c.w
	now := map[string]bool{}
	for _, n := range reply.Notes {
		if !aboutQueue(n) {
			continue
		}
		now[n.Queue] = true
		if c.broken[n.Queue] {
			continue
		}
		c.broken[n.Queue] = true
		w.metrics.notes.WithLabelValues(string(n.Kind)).Inc()
		w.log.Warn("nothing is taken from a queue: its key or that of its processing list is not a list (see: redis-cli TYPE queue:NAME, and rename or delete what is there)",
			zap.String("queue", n.Queue))
	}
	if len(reply.Claims) >= r.Max {
		return // it may have ended before it came to all of them
	}
	for q := range c.broken {
		if !now[q] && slices.Contains(r.Queues, q) && !slices.Contains(reply.Paused, q) {
			delete(c.broken, q)
			w.log.Info("the queue is a list again", zap.String("queue", q))
		}
	}
}
