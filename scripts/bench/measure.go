package main

import (
	"context"
	"fmt"
	"time"
)

// reading is what one run has shown.
type reading struct {
	total    float64       // tasks per second, from the start of the worker's process until the last result is stored
	steady   float64       // tasks per second, from the tenth to the ninetieth part of a hundred of the results
	redisCPU time.Duration // of the server, per task, over the steady part
	commands float64       // per task, over the steady part, those inside scripts included
	workCPU  time.Duration // of the worker's process and its children, per task, start and end included
}

// mark is how far a run is at one moment.
type mark struct {
	done int64
	at   time.Time
	used usage
}

// drain starts a worker on the tasks that wait and follows them to their end.
func (b *bench) drain(ctx context.Context, s side, w work) (r reading, err error) {
	began := time.Now()
	c, err := s.start(ctx, b, w)
	if err != nil {
		return reading{}, err
	}
	stopped := false
	defer func() {
		if !stopped {
			c.kill()
		}
	}()
	from, to, end, err := b.follow(ctx, s, c, int64(w.tasks))
	if err != nil {
		return reading{}, fmt.Errorf("%s: %w", s.name, err)
	}
	c.stop()
	stopped = true
	tasks := float64(to.done - from.done)
	return reading{
		total:    float64(w.tasks) / end.Sub(began).Seconds(),
		steady:   tasks / to.at.Sub(from.at).Seconds(),
		redisCPU: time.Duration(float64(to.used.cpu-from.used.cpu) / tasks),
		commands: float64(to.used.commands-from.used.commands) / tasks,
		workCPU:  c.cpu() / time.Duration(w.tasks),
	}, nil
}

// follow waits until n tasks are done, and marks when a tenth and when nine
// tenths were.
func (b *bench) follow(ctx context.Context, s side, c *child, n int64) (from, to mark, end time.Time, err error) {
	err = await(ctx, c, fmt.Sprintf("%d tasks are done", n), func() (bool, error) {
		done, err := s.done(ctx, b)
		if err != nil {
			return false, err
		}
		now := mark{done: done, at: time.Now()}
		for _, m := range []struct {
			mark *mark
			part int64
		}{{&from, n / 10}, {&to, n * 9 / 10}} {
			if m.mark.at.IsZero() && done >= m.part {
				if now.used, err = b.redis.usage(ctx); err != nil {
					return false, err
				}
				*m.mark = now
			}
		}
		end = now.at
		return done >= n, nil
	})
	if err == nil && to.done == from.done {
		err = fmt.Errorf("%d tasks are too few: they were done between two looks", n)
	}
	return from, to, end, err
}

// readings are those of one side, by round.
type readings struct {
	side                               side
	total, steady, cpu, commands, work series
}

func (r *readings) add(x reading) {
	r.total = append(r.total, x.total)
	r.steady = append(r.steady, x.steady)
	r.cpu = append(r.cpu, float64(x.redisCPU.Nanoseconds())/1000)
	r.commands = append(r.commands, x.commands)
	r.work = append(r.work, float64(x.workCPU.Nanoseconds())/1000)
}

// turns lets the sides take turns for all rounds.
func (b *bench) turns(ctx context.Context, sides []side, w work) ([]*readings, error) {
	out := make([]*readings, len(sides))
	for i, s := range sides {
		out[i] = &readings{side: s}
	}
	for round := range b.rounds {
		for i, s := range sides {
			own := w
			if s.share > 0 && !w.all {
				own.tasks = max(int(float64(w.tasks)*s.share), 100)
			}
			if err := b.redis.empty(ctx); err != nil {
				return nil, err
			}
			if err := s.fill(ctx, b, own); err != nil {
				return nil, fmt.Errorf("%s: put %d tasks in place: %w", s.name, own.tasks, err)
			}
			r, err := b.drain(ctx, s, own)
			if err != nil {
				return nil, err
			}
			out[i].add(r)
			b.say("  round %d, %d slots, %s: %.0f/s steady, %.0f/s from the start, Redis %.1f us and %.1f commands, worker %.0f us per task",
				round+1, w.slots, s.name, r.steady, r.total, float64(r.redisCPU.Nanoseconds())/1000, r.commands, float64(r.workCPU.Nanoseconds())/1000)
		}
	}
	return out, nil
}
