package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/queue"
)

// producers is how many there are: one uses the Go API, one writes keys as
// any Redis client can.
const producers = 2

// batch is how many tasks go out at once by the Go API when it is behind.
const batch = 50

// produce submits all tasks at the pace that was asked for, and insists until
// each one has been accepted. Every third is written by hand.
func (f *fleet) produce(ctx context.Context, tasks *book) error {
	var api, bare []int
	for i := range f.o.Tasks {
		if i%3 == 2 {
			bare = append(bare, i)
		} else {
			api = append(api, i)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.produceByAPI(ctx, tasks, api) })
	g.Go(func() error { return f.produceByHand(ctx, tasks, bare) })
	return g.Wait()
}

// due waits until the i-th task is to go out.
func (f *fleet) due(ctx context.Context, i int) error {
	wait := time.Until(f.begin(i))
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fleet) begin(i int) time.Time {
	return f.began.Add(time.Duration(float64(i) / f.o.Rate * float64(time.Second)))
}

func (f *fleet) produceByAPI(ctx context.Context, tasks *book, indexes []int) error {
	defer func() {
		if f.producer != nil {
			_ = f.producer.Close()
		}
	}()
	for len(indexes) > 0 {
		if err := f.due(ctx, indexes[0]); err != nil {
			return err
		}
		n := 1
		for n < batch && n < len(indexes) && !f.begin(indexes[n]).After(time.Now()) {
			n++
		}
		all := make([]queue.Submission, n)
		for k, i := range indexes[:n] {
			s, note := plan(f.o, i)
			all[k] = s
			tasks.add(note)
		}
		if err := f.submit(ctx, tasks, all); err != nil {
			return err
		}
		indexes = indexes[n:]
	}
	return nil
}

// submit repeats until every task has been accepted. One that is there already
// had been, and the answer was lost. After a failure it comes as a new client,
// as a program does that is started again: an old one would leave a server
// that was away in peace for a minute.
func (f *fleet) submit(ctx context.Context, tasks *book, left []queue.Submission) error {
	for len(left) > 0 {
		if f.producer == nil {
			c, err := client.Connect(ctx, client.RedisOptions{URL: f.wires[agents+controls].URL()})
			if err != nil {
				if err := rest(ctx, 100*ms); err != nil {
					return err
				}
				continue
			}
			f.producer = c
		}
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		receipts, err := f.producer.SubmitAll(call, left)
		cancel()
		var again []queue.Submission
		for i, s := range left {
			switch {
			case i < len(receipts) && receipts[i].Err == nil && receipts[i].ID != "",
				i < len(receipts) && errors.Is(receipts[i].Err, queue.ErrExists):
				tasks.accept(s.ID)
			case i < len(receipts) && receipts[i].Err != nil && err == nil:
				return fmt.Errorf("task %s is refused: %w", s.ID, receipts[i].Err)
			default:
				again = append(again, s)
			}
		}
		if left = again; len(left) > 0 {
			_ = f.producer.Close()
			f.producer = nil
		}
	}
	return nil
}

// rest is the pause of a producer before it tries again.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// produceByHand writes what the seed's producers write: the hash and the id in
// one transaction, or, every other time, in two commands.
func (f *fleet) produceByHand(ctx context.Context, tasks *book, indexes []int) error {
	options, err := redis.ParseURL(f.wires[agents+controls+1].URL())
	if err != nil {
		return err
	}
	options.MaxRetries = -1 // whether a command was carried out is for us to find out
	rdb := redis.NewClient(options)
	defer func() { _ = rdb.Close() }()
	for n, i := range indexes {
		if err := f.due(ctx, i); err != nil {
			return err
		}
		s, note := plan(f.o, i)
		note.MaxRetries = *s.MaxRetries
		tasks.add(note)
		h := hand{f: f, rdb: rdb, tasks: tasks, s: s}
		write := h.atOnce
		if n%2 == 1 {
			write = h.inTwoSteps
		}
		if err := write(ctx); err != nil {
			return err
		}
		tasks.accept(s.ID)
	}
	return nil
}

// hand writes one task with plain commands.
type hand struct {
	f     *fleet
	rdb   *redis.Client
	tasks *book
	s     queue.Submission
}

func (h hand) key() string { return "task:" + h.s.ID }

func (h hand) list() string {
	if h.s.Queue != "" {
		return "queue:" + h.s.Queue
	}
	return fmt.Sprintf("queue:%s:%s", h.s.Priority, h.s.Type)
}

func (h hand) hash() map[string]any {
	m := map[string]any{
		"id": h.s.ID, "type": h.s.Type, "payload": string(h.s.Payload), "status": "queued", "priority": string(h.s.Priority),
		"created_at": fmt.Sprintf("%.6f", float64(time.Now().UnixMicro())/1e6), "max_retries": *h.s.MaxRetries, "retry_count": 0,
		"worker_id": "", "previous_worker": "", "requeued_at": "",
	}
	if h.s.Timeout > 0 {
		m["timeout"] = int(h.s.Timeout / time.Second)
	}
	return m
}

// written reports whether the hash is there; it asks past the proxy, and until
// there is an answer.
func (h hand) written(ctx context.Context) (bool, error) {
	for {
		n, err := h.f.direct.Exists(ctx, h.key()).Result()
		if err == nil {
			return n == 1, nil
		}
		if err := rest(ctx, 50*ms); err != nil {
			return false, err
		}
	}
}

// atOnce writes in one transaction, which has been done or has not.
func (h hand) atOnce(ctx context.Context) error {
	for {
		_, err := h.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.HSet(ctx, h.key(), h.hash())
			p.LPush(ctx, h.list(), h.s.ID)
			return nil
		})
		if err == nil {
			return nil
		}
		if done, err := h.settled(ctx); done || err != nil {
			return err
		}
	}
}

// settled finds out what became of a write whose answer was lost. A request
// that is still held up may arrive later, so it waits for the end of the
// faults of its connection first.
func (h hand) settled(ctx context.Context) (bool, error) {
	w := h.f.wires[agents+controls+1]
	w.mu.Lock()
	defer w.mu.Unlock()
	// What the server had received before it answers the first question has
	// been carried out before the second.
	for range 2 {
		done, err := h.written(ctx)
		if done || err != nil {
			return done, err
		}
		if err := rest(ctx, 300*ms); err != nil {
			return false, err
		}
	}
	return h.written(ctx)
}

// inTwoSteps writes the hash and then pushes the id. A push whose answer was
// lost is repeated, so the id may be in the list twice.
func (h hand) inTwoSteps(ctx context.Context) error {
	for h.rdb.HSet(ctx, h.key(), h.hash()).Err() != nil {
		done, err := h.settled(ctx)
		if err != nil {
			return err
		}
		if done {
			break
		}
	}
	for h.rdb.LPush(ctx, h.list(), h.s.ID).Err() != nil {
		h.tasks.double(h.s.ID)
		if err := rest(ctx, 100*ms); err != nil {
			return err
		}
	}
	return nil
}
