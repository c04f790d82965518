package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/agent/spool"
	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/queue"
)

const (
	// partialLimit bounds the keeping of artifacts of a failed run.
	partialLimit = 30 * time.Second
	maxAnnounced = 1000
)

// attempt is what happens while one run is executed.
type attempt struct {
	w       *Worker
	r       *run
	common  common
	typ     TypeStatus
	budget  budget
	solo    bool
	started time.Time
	ran     time.Duration // in the executor
	upload  time.Duration
	by      JobOutcome // result and who ran it

	mu        sync.Mutex
	announced []executors.Artifact
}

// execute runs a claim to its end and returns its outcome.
func (w *Worker) execute(r *run) *outcome {
	a := &attempt{w: w, r: r, started: time.Now(), solo: r.claim.CrashCount > 0}
	if r.earlier != nil {
		// An attempt that was taken away from us still runs here: it has been
		// told to stop. Two runs of one task side by side help nobody.
		select {
		case <-r.earlier.done:
		case <-r.ctx.Done():
		}
	}
	var ok bool
	if a.typ, ok = w.typeStatus(r); !ok {
		w.log.Info("the executor of a claimed task went away before it started: handing back",
			zap.String("task", clip(r.claim.ID, 200)), zap.String("type", clip(r.claim.Type, 64)))
		return a.release()
	}
	records, err := a.run()
	if err == nil {
		var doc []byte
		if doc, err = a.resultDocument(records); err == nil {
			w.metrics.finished.WithLabelValues("completed").Inc()
			w.metrics.runtime.WithLabelValues(r.claim.Type).Observe(time.Since(a.started).Seconds())
			return &outcome{kind: outcomeFinish, out: queue.Outcome{Fence: r.claim.Fence(), Result: doc}}
		}
	}
	return a.failed(err, records)
}

// typeStatus is what the executor of r says about its type now.
func (w *Worker) typeStatus(r *run) (TypeStatus, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.served.executor(r.claim.Type) != r.executor || r.executor == "" {
		return TypeStatus{}, false
	}
	i := w.served.types[r.claim.Type]
	e := w.served.executors[i]
	return w.served.info[r.claim.Type], e.Name == r.executor
}

// run checks the payload, runs the task and keeps its artifacts.
func (a *attempt) run() ([]spool.Record, error) {
	r := a.r
	var err error
	if a.common, err = readCommon(r.claim.Payload); err != nil {
		return nil, err
	}
	a.common.commit.AtLeast = r.claim.ResultTTL
	a.budget = effective(a.common, r.claim.Task, a.left(), a.typ)
	if a.budget.final && a.budget.limit <= 0 {
		return nil, &timeoutError{final: true}
	}
	timeout := &timeoutError{budget: a.budget.limit, final: a.budget.final}
	ctx, cancel := context.WithTimeoutCause(r.ctx, a.budget.limit, timeout)
	defer cancel()
	folder := a.w.o.Spool.Prepare
	if a.typ.MakesSpoolDir {
		folder = a.w.o.Spool.Locate
	}
	dir, err := folder(r.claim.ID, r.claim.Attempt)
	if err != nil {
		return nil, &noRoomError{err}
	}
	defer a.w.o.Spool.Discard(r.claim.ID, r.claim.Attempt)
	inputs, err := a.inputs(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := a.call(ctx, dir, inputs); err != nil {
		// A failed run may have left a screenshot of the failure.
		return a.keepPartial(ctx, err)
	}
	if err := a.offload(); err != nil {
		return nil, err
	}
	return a.keep(ctx)
}

// left is the time until the task's own deadline, 0 if it has none.
func (a *attempt) left() time.Duration {
	if a.r.left == 0 {
		return 0
	}
	left := a.r.left - time.Since(a.r.began)
	if left == 0 {
		left = -1
	}
	return left
}

// call runs the task in its executor.
func (a *attempt) call(ctx context.Context, dir string, inputs map[string]string) error {
	r := a.r
	deadline, _ := ctx.Deadline()
	if err := ctx.Err(); err != nil {
		return cause(ctx)
	}
	began := time.Now()
	result, err := a.w.o.Executors.Execute(ctx, Job{Solo: a.solo, Task: executors.Task{
		ID: r.claim.ID, Attempt: r.claim.Attempt, Type: r.claim.Type, Payload: r.claim.Payload,
		Deadline: deadline, SpoolDir: dir, Inputs: inputs, Trace: r.claim.Trace,
	}}, a.sink)
	a.ran = max(time.Since(began), 0)
	a.by = result
	if err != nil && ctx.Err() != nil {
		return cause(ctx) // why we stopped it tells more than how it ended
	}
	return err
}

func cause(ctx context.Context) error { return context.Cause(ctx) }

// sink takes the events of the executor. It never blocks for long.
func (a *attempt) sink(e executors.Event) {
	switch {
	case e.Progress != nil:
		a.w.pub.note(a.r, *e.Progress)
	case e.Artifact != nil:
		a.mu.Lock()
		if len(a.announced) < maxAnnounced {
			a.announced = append(a.announced, *e.Artifact)
		}
		a.mu.Unlock()
	case e.Log != nil:
		a.w.log.Debug("executor: "+clip(e.Log.Message, 1000), zap.String("task", clip(a.r.claim.ID, 200)),
			zap.Int64("attempt", a.r.claim.Attempt), zap.String("level", clip(e.Log.Level, 10)))
	}
}

func (a *attempt) artifacts() []executors.Artifact {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]executors.Artifact(nil), a.announced...)
}

// keep brings the artifacts to where they stay; only then may the task be
// reported as completed.
func (a *attempt) keep(ctx context.Context) ([]spool.Record, error) {
	files := a.artifacts()
	if len(files) == 0 {
		return nil, nil
	}
	a.uploading(len(files))
	began := time.Now()
	records, err := a.w.o.Spool.Commit(ctx, a.r.claim.ID, a.r.claim.Attempt, files, a.common.commit)
	a.upload = time.Since(began)
	if err != nil && ctx.Err() != nil {
		var late *timeoutError
		if why := cause(ctx); !errors.As(why, &late) {
			return nil, why
		}
	}
	return records, err
}

// uploading tells the stage, without going back in the percentage.
func (a *attempt) uploading(n int) {
	percent, stage := a.r.progress.reached()
	if stage == "" {
		return // a task that tells no progress tells none of this either
	}
	a.w.pub.note(a.r, executors.Progress{Percent: percent, Stage: "upload", Total: int64(n), Unit: "file"})
}

// keepPartial keeps the artifacts of a failed run where that makes sense, and
// returns the failure.
func (a *attempt) keepPartial(ctx context.Context, failure error) ([]spool.Record, error) {
	var cancelled *cancelledError
	switch {
	case isSilent(failure), errors.Is(failure, ErrReplaced):
		return nil, failure
	case errors.As(failure, &cancelled) && !a.common.keepPartial:
		return nil, failure
	}
	files := a.artifacts()
	if len(files) == 0 {
		return nil, failure
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), partialLimit)
	defer cancel()
	stop := context.AfterFunc(a.r.ctx, func() {
		if isSilent(context.Cause(a.r.ctx)) {
			cancel()
		}
	})
	defer stop()
	began := time.Now()
	records, err := a.w.o.Spool.Commit(ctx, a.r.claim.ID, a.r.claim.Attempt, files, a.common.commit)
	a.upload = time.Since(began)
	if err != nil {
		a.w.log.Info("artifacts of a failed task could not be kept", zap.String("task", clip(a.r.claim.ID, 200)), zap.Error(err))
		return nil, failure
	}
	return records, failure
}

// isSilent reports whether a run ended for a reason that says nothing about its
// task: nothing is published, or it is handed back.
func isSilent(err error) bool {
	return errors.Is(err, errLost) || errors.Is(err, errFenced) || errors.Is(err, errSuperseded) || errors.Is(err, errHandBack)
}

func (a *attempt) release() *outcome {
	a.w.metrics.finished.WithLabelValues("released").Inc()
	return &outcome{kind: outcomeRelease, out: queue.Outcome{Fence: a.r.claim.Fence()}}
}
