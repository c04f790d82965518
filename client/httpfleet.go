package client

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/queue"
)

// Queues implements queue.Producer.
func (r *remote) Queues(ctx context.Context) ([]queue.QueueInfo, error) {
	var list apiwire.QueueList
	if err := r.get(ctx, "/api/queues", nil, &list); err != nil {
		return nil, err
	}
	out := make([]queue.QueueInfo, 0, len(list.Queues))
	for _, q := range list.Queues {
		q.OldestAge = time.Duration(q.OldestSeconds * float64(time.Second))
		out = append(out, q.QueueInfo)
	}
	return out, nil
}

// Pause implements queue.Producer.
func (r *remote) Pause(ctx context.Context, name string) error {
	return r.post(ctx, "/api/queues/"+url.PathEscape(name)+"/pause", nil, nil)
}

// Resume implements queue.Producer.
func (r *remote) Resume(ctx context.Context, name string) error {
	return r.post(ctx, "/api/queues/"+url.PathEscape(name)+"/resume", nil, nil)
}

// Workers implements queue.Producer.
func (r *remote) Workers(ctx context.Context) ([]queue.WorkerRecord, error) {
	var list apiwire.WorkerList
	if err := r.get(ctx, "/api/workers", nil, &list); err != nil {
		return nil, err
	}
	out := make([]queue.WorkerRecord, 0, len(list.Workers))
	for _, w := range list.Workers {
		out = append(out, recordOf(w))
	}
	return out, nil
}

// Worker implements queue.Producer.
func (r *remote) Worker(ctx context.Context, id string) (*queue.WorkerRecord, error) {
	var w apiwire.WorkerView
	if err := r.get(ctx, "/api/workers/"+url.PathEscape(id), nil, &w); err != nil {
		return nil, err
	}
	rec := recordOf(w)
	return &rec, nil
}

func recordOf(w apiwire.WorkerView) queue.WorkerRecord {
	w.HeartbeatTTL = time.Duration(w.HeartbeatTTLs * float64(time.Second))
	return w.WorkerRecord
}

// Cordon implements queue.Producer.
func (r *remote) Cordon(ctx context.Context, id string) error {
	return r.post(ctx, "/api/workers/"+url.PathEscape(id)+"/drain", nil, nil)
}

// Uncordon implements queue.Producer.
func (r *remote) Uncordon(ctx context.Context, id string) error {
	return r.post(ctx, "/api/workers/"+url.PathEscape(id)+"/resume", nil, nil)
}

// FailoverLog implements queue.Producer.
func (r *remote) FailoverLog(ctx context.Context, n int) ([]queue.FailoverEvent, error) {
	var log apiwire.FailoverLog
	err := r.get(ctx, "/api/failover/log", url.Values{"count": {strconv.Itoa(min(max(n, 1), 500))}}, &log)
	return log.Events, err
}

// Watch implements queue.Producer. The control plane streams the events of
// single tasks only, which follow reads.
func (r *remote) Watch(context.Context, string) (<-chan queue.Event, error) {
	return nil, fmt.Errorf("events of the whole fleet over HTTP: %w (use Connect)", ErrUnsupported)
}

func (r *remote) retryAll(ctx context.Context, f queue.Filter, dryRun bool) (RetryReport, error) {
	req := apiwire.RetryRequest{Status: f.Status, Type: f.Type, Worker: f.Worker, Queue: f.Queue, Code: f.Code, Limit: f.Limit, DryRun: dryRun}
	var reply apiwire.RetryReply
	err := r.post(ctx, "/api/tasks/retry", req, &reply)
	return RetryReport(reply), err
}

func (r *remote) scan(ctx context.Context) (ScanReport, error) {
	var reply apiwire.ScanReply
	if err := r.post(ctx, "/api/failover/scan", nil, &reply); err != nil {
		return ScanReport{}, err
	}
	return scanReport(reply), nil
}

func scanReport(s apiwire.ScanReply) ScanReport {
	pending := make([]PendingWorker, 0, len(s.Pending))
	for _, p := range s.Pending {
		pending = append(pending, PendingWorker(p))
	}
	return ScanReport{Leader: s.Leader, Workers: s.Workers, Dead: s.Dead, Pending: pending, Events: s.Events, Took: time.Duration(s.Took * float64(time.Second))}
}
