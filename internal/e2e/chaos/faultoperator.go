package chaos

import (
	"context"
	"fmt"
)

// operator carries out what an operator does and takes back.
func (in *injector) operator(_ context.Context, fault Fault) error {
	var do, undo func(ctx context.Context) error
	switch fault.Kind {
	case DrainAgent:
		name := in.f.agents[fault.Target].name
		do = func(ctx context.Context) error { return in.f.queue.Cordon(ctx, name) }
		undo = func(ctx context.Context) error { return in.f.queue.Uncordon(ctx, name) }
	case PauseQueue:
		name := queues[fault.Target]
		do = func(ctx context.Context) error { return in.f.queue.Pause(ctx, name) }
		undo = func(ctx context.Context) error { return in.f.queue.Resume(ctx, name) }
	default:
		return fmt.Errorf("%s is not what operators do", fault.Kind)
	}
	if err := insist(string(fault.Kind), do); err != nil {
		return err
	}
	pause(fault.For)
	return insist("take it back: "+string(fault.Kind), undo)
}

// some is how many tasks are cancelled or retried at once.
const some = 5

// cancel cancels some of the tasks that wait or run.
func (in *injector) cancel(ctx context.Context, fault Fault) bool {
	n := 0
	for _, id := range chosen(in.alive(ctx), fault.Pick) {
		if _, err := in.client.Cancel(ctx, id); err == nil {
			n++
		}
	}
	return n > 0
}

// alive lists tasks that have not ended, in no certain order.
func (in *injector) alive(ctx context.Context) []string {
	rdb := in.f.direct
	ids := rdb.ZRange(ctx, "autobot:delayed", 0, 100).Val()
	for _, q := range queues {
		ids = append(ids, rdb.LRange(ctx, "queue:"+q+":processing", 0, 100).Val()...)
		ids = append(ids, rdb.LRange(ctx, "queue:"+q, 0, 100).Val()...)
	}
	return ids
}

// chosen are some of the ids, by a number from 0 to 1.
func chosen(ids []string, pick float64) []string {
	from := int(pick * float64(len(ids)))
	return ids[from:min(from+some, len(ids))]
}

// retry queues some tasks again that have failed or were cancelled. A call
// whose answer is lost may have done it, so it is noted first.
func (in *injector) retry(ctx context.Context, fault Fault) bool {
	n := 0
	for _, index := range []string{"autobot:failed", "autobot:cancelled"} {
		ids, err := in.f.direct.ZRange(ctx, index, 0, -1).Result()
		if err != nil || len(ids) == 0 {
			continue
		}
		for _, id := range chosen(ids, fault.Pick) {
			in.tasks.noteRetry(id)
			if in.client.Retry(ctx, id) == nil {
				n++
			}
		}
	}
	return n > 0
}
