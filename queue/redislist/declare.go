package redislist

import "github.com/autobot-fleet/autobot/queue"

// The keys that moves declare to their scripts. Whatever a caller knows of a
// move before the call belongs here, so that Redis, an ACL or a proxy can see
// what a script is going to touch; the rest a script finds itself, which its
// header says. The order is that of the KEYS line in the header.

// claims are the keys of every script that claims.
func (l layout) claims(worker string) []string {
	return []string{l.config(worker), l.tasks(worker), l.paused(), l.cordoned(), l.delayed(), l.missing(), l.queues(),
		l.completed(), l.failed(), l.cancelled(), l.inbox(worker)}
}

// sweeps are the keys of a claim from the queues.
func (l layout) sweeps(worker string, queues []string) []string {
	return append(l.claims(worker), l.lists(queues)...)
}

// lists are the queues and their processing lists.
func (l layout) lists(queues []string) []string {
	out := make([]string, 0, 2*len(queues))
	for _, q := range queues {
		out = append(out, l.queue(q), l.processing(q))
	}
	return out
}

// ends are the sets and indexes that a task can move to when its attempt ends
// without a result.
func (l layout) ends() []string {
	return []string{l.delayed(), l.failed(), l.cancelled(), l.queues()}
}

// hashes lists the hashes of the ids.
func (l layout) hashes(ids []string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = l.task(id)
	}
	return out
}

// held are the tasks of the claims and, once each, what lists returns of the
// queues that they came from. A claim of a foreign worker names no queue.
func (l layout) held(claims []queue.Fence, lists func(queue string) []string) []string {
	out := make([]string, 0, len(claims)+4)
	seen := ""
	known := map[string]bool{}
	for _, f := range claims {
		out = append(out, l.task(f.ID))
		if f.Queue == "" || f.Queue == seen || known[f.Queue] {
			continue
		}
		seen = f.Queue
		known[f.Queue] = true
		out = append(out, lists(f.Queue)...)
	}
	return out
}

// both are a queue and its processing list.
func (l layout) both(queue string) []string { return []string{l.queue(queue), l.processing(queue)} }
