package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/queue"
)

// listQueues serves GET /api/queues.
func (a *API) listQueues(w http.ResponseWriter, r *http.Request) error {
	infos, err := a.Queue.Queues(r.Context())
	if err != nil {
		return fmt.Errorf("list queues: %w", err)
	}
	out := apiwire.QueueList{Queues: make([]apiwire.QueueView, 0, len(infos))}
	for _, q := range infos {
		out.Queues = append(out.Queues, apiwire.QueueView{QueueInfo: q, OldestSeconds: q.OldestAge.Seconds()})
	}
	return ok(w, out)
}

// pauseQueue serves POST /api/queues/{name}/pause.
func (a *API) pauseQueue(w http.ResponseWriter, r *http.Request) error {
	return a.setPaused(w, r, true)
}

// resumeQueue serves POST /api/queues/{name}/resume.
func (a *API) resumeQueue(w http.ResponseWriter, r *http.Request) error {
	return a.setPaused(w, r, false)
}

func (a *API) setPaused(w http.ResponseWriter, r *http.Request, paused bool) error {
	name := r.PathValue("name")
	if err := queue.CheckQueue(name); err != nil {
		return err
	}
	set, what := a.Queue.Resume, "resume"
	if paused {
		set, what = a.Queue.Pause, "pause"
	}
	note := a.queueNote(r.Context(), name, paused)
	if err := set(r.Context(), name); err != nil {
		return fmt.Errorf("%s queue %s: %w", what, show(name), err)
	}
	return ok(w, apiwire.QueueReply{Queue: name, Paused: paused, Note: note})
}

// queueNote looks at the fleet before a queue is changed. What it cannot see it
// says nothing about: that must not keep anybody from pausing.
func (a *API) queueNote(ctx context.Context, name string, pause bool) string {
	queues, err := a.Queue.Queues(ctx)
	if err != nil {
		return ""
	}
	workers, err := a.Queue.Workers(ctx)
	if err != nil {
		return ""
	}
	return apiwire.QueueNote(name, pause, queues, workers)
}

// listWorkers serves GET /api/workers.
func (a *API) listWorkers(w http.ResponseWriter, r *http.Request) error {
	records, err := a.Queue.Workers(r.Context())
	if err != nil {
		return fmt.Errorf("list workers: %w", err)
	}
	out := struct {
		Workers []workerView `json:"workers"`
	}{make([]workerView, 0, len(records))}
	for _, rec := range records {
		out.Workers = append(out.Workers, workerOf(rec))
	}
	return ok(w, out)
}

// worker reads the worker in the path.
func (a *API) worker(r *http.Request) (*queue.WorkerRecord, error) {
	id := r.PathValue("id")
	rec, err := a.Queue.Worker(r.Context(), id)
	if errors.Is(err, queue.ErrNotFound) {
		return nil, refuse(http.StatusNotFound, "no such worker: %s", show(id))
	}
	if err != nil {
		return nil, fmt.Errorf("worker %s: %w", show(id), err)
	}
	return rec, nil
}

// getWorker serves GET /api/workers/{id}.
func (a *API) getWorker(w http.ResponseWriter, r *http.Request) error {
	rec, err := a.worker(r)
	if err != nil {
		return err
	}
	return ok(w, workerOf(*rec))
}

// drainWorker serves POST /api/workers/{id}/drain: the worker finishes what
// it has and takes nothing new, over restarts, until it is resumed.
func (a *API) drainWorker(w http.ResponseWriter, r *http.Request) error {
	rec, err := a.worker(r) // a typing error must not drain nobody and say ok
	if err != nil {
		return err
	}
	if err := a.Queue.Cordon(r.Context(), rec.ID); err != nil {
		return fmt.Errorf("drain worker %s: %w", rec.ID, err)
	}
	return ok(w, apiwire.WorkerReply{WorkerID: rec.ID, Cordoned: true})
}

// resumeWorker serves POST /api/workers/{id}/resume. A worker that is away
// can be resumed too: it may come back.
func (a *API) resumeWorker(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := queue.CheckWorkerID(id); err != nil {
		return err
	}
	if err := a.Queue.Uncordon(r.Context(), id); err != nil {
		return fmt.Errorf("resume worker %s: %w", id, err)
	}
	return ok(w, apiwire.WorkerReply{WorkerID: id})
}

// failoverLog serves GET /api/failover/log?count=.
func (a *API) failoverLog(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "count")
	if err != nil {
		return err
	}
	n, err := whole(q.Get("count"), "query.count", 50, 1, 500)
	if err != nil {
		return err
	}
	events, err := a.Queue.FailoverLog(r.Context(), n)
	if err != nil {
		return fmt.Errorf("read failover log: %w", err)
	}
	if events == nil {
		events = []queue.FailoverEvent{}
	}
	return ok(w, apiwire.FailoverLog{Events: events})
}

// failoverScan serves POST /api/failover/scan.
func (a *API) failoverScan(w http.ResponseWriter, r *http.Request) error {
	if a.Monitor == nil {
		return missing("the failover monitor")
	}
	out, err := a.Monitor.Scan(r.Context())
	if err != nil {
		return fmt.Errorf("scan for dead workers: %w", err)
	}
	if out.Dead == nil {
		out.Dead = []string{}
	}
	if out.Pending == nil {
		out.Pending = []apiwire.PendingWorker{}
	}
	if out.Events == nil {
		out.Events = []queue.FailoverEvent{}
	}
	return ok(w, out)
}

// getArtifact serves GET and HEAD /api/artifacts/{sha256}.
func (a *API) getArtifact(w http.ResponseWriter, r *http.Request) error {
	if a.Artifacts == nil {
		return missing("the artifact store")
	}
	return a.Artifacts.Get(w, r, r.PathValue("sha256"))
}

// putArtifact serves PUT /api/artifacts/{sha256}.
func (a *API) putArtifact(w http.ResponseWriter, r *http.Request) error {
	if a.Artifacts == nil {
		return missing("the artifact store")
	}
	return a.Artifacts.Put(w, r, r.PathValue("sha256"))
}
