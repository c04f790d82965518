package worker

import (
	"context"
	"slices"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

// take is what every claim does with an id in a processing list.
func (f *fakeQueue) take(r *queue.ClaimRequest, reply *queue.ClaimReply, q, id string) (stop bool) {
	note := func(kind queue.NoteKind) { reply.Notes = append(reply.Notes, queue.Note{ID: id, Queue: q, Kind: kind}) }
	t := f.tasks[id]
	if t == nil {
		if first, ok := f.missing[id]; ok && time.Since(first) >= time.Second {
			f.unprocess(q, id)
			note(queue.NoteMissing)
			return false
		}
		if _, ok := f.missing[id]; !ok {
			f.missing[id] = time.Now()
		}
		reply.Missing = append(reply.Missing, queue.Fence{ID: id, Queue: q})
		return false
	}
	i, served := r.Types[t.Type]
	switch {
	case t.Status != queue.StatusQueued:
		f.unprocess(q, id)
		note(queue.NoteDuplicate)
	case !served:
		f.unprocess(q, id)
		f.push(queue.TypeQueue(t.Priority, t.Type), id)
		note(queue.NoteRouted)
	case slices.Contains(t.Exclude, r.WorkerID):
		f.unprocess(q, id)
		f.push("put-aside", id)
		note(queue.NoteExcluded)
		reply.Excluded = append(reply.Excluded, id)
	case r.Max <= 0 || r.Free[i] <= 0:
		f.unprocess(q, id)
		f.pushFront(q, id)
		note(queue.NoteFull)
		return true
	default:
		t.Status, t.WorkerID, t.Queue, t.Generation = queue.StatusRunning, r.WorkerID, q, r.Generation
		t.Attempt++
		t.starts++
		f.own[id] = true
		r.Max--
		r.Free[i]--
		reply.Claims = append(reply.Claims, queue.Claim{Task: t.Task, WaitedFor: time.Millisecond})
	}
	return false
}

func (f *fakeQueue) pausedNames() []string {
	var out []string
	for q := range f.paused {
		out = append(out, q)
	}
	return out
}

func (f *fakeQueue) sweep(r queue.ClaimRequest) (queue.ClaimReply, error) {
	r.Free = slices.Clone(r.Free)
	reply := queue.ClaimReply{Time: time.Now(), Paused: f.pausedNames()}
	if err := f.leaseError(r.Generation); err != nil {
		return reply, err
	}
	if f.cordoned {
		reply.Cordoned = true
		return reply, nil
	}
	for _, q := range r.Queues {
		for !f.paused[q] && r.Max > 0 && len(f.lists[q]) > 0 {
			id := f.pop(q)
			if f.take(&r, &reply, q, id) {
				break
			}
		}
	}
	return reply, nil
}

func (f *fakeQueue) pop(q string) string {
	l := f.lists[q]
	id := l[len(l)-1]
	f.lists[q] = l[:len(l)-1]
	f.processing[q] = append(f.processing[q], id)
	return id
}

func (f *fakeQueue) Claim(_ context.Context, r queue.ClaimRequest) (queue.ClaimReply, error) {
	if err := f.enter("claim"); err != nil {
		return queue.ClaimReply{}, err
	}
	f.mu.Lock()
	reply, err := f.sweep(r)
	f.mu.Unlock()
	if lost := f.leave("claim"); lost != nil {
		return queue.ClaimReply{}, lost
	}
	return reply, err
}

func (f *fakeQueue) Adopt(_ context.Context, q, id string, r queue.ClaimRequest) (queue.ClaimReply, error) {
	if err := f.enter("adopt"); err != nil {
		return queue.ClaimReply{}, err
	}
	f.mu.Lock()
	reply := queue.ClaimReply{Time: time.Now(), Paused: f.pausedNames(), Cordoned: f.cordoned}
	err := f.leaseError(r.Generation)
	if slices.Contains(f.processing[q], id) {
		if err != nil || f.cordoned || f.paused[q] {
			f.unprocess(q, id)
			f.pushFront(q, id)
			reply.Notes = append(reply.Notes, queue.Note{ID: id, Queue: q, Kind: queue.NotePaused})
		} else if t := f.tasks[id]; t == nil || t.Status != queue.StatusRunning {
			r.Free = slices.Clone(r.Free)
			f.take(&r, &reply, q, id)
		}
	}
	f.mu.Unlock()
	if lost := f.leave("adopt"); lost != nil {
		return queue.ClaimReply{}, lost
	}
	return reply, err
}
