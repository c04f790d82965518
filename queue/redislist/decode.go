package redislist

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

// decodeTask reads a task hash that anybody may have written: what cannot be
// read is zero, and nothing is refused.
func (b *Backend) decodeTask(id string, h map[string]string) queue.Task {
	flat := make([]string, 0, 2*len(h))
	for k, v := range h {
		flat = append(flat, k, v)
	}
	return b.decodeFlat(id, flat)
}

// decodeFlat is decodeTask for a flat list of names and values. Of a name that
// comes twice the last value counts.
func (b *Backend) decodeFlat(id string, flat []string) queue.Task {
	t := queue.Task{
		ID: id, MaxRetries: b.o.MaxRetries, Status: queue.StatusQueued, Priority: queue.PriorityNormal,
		Type: "default", // what the seed's monitor takes for a missing type
	}
	for i := 0; i+1 < len(flat); i += 2 {
		b.decodeField(&t, flat[i], flat[i+1])
	}
	return t
}

func (b *Backend) decodeField(t *queue.Task, name, v string) {
	switch name {
	case "id":
	case "type":
		t.Type = cmp.Or(v, "default")
	case "payload":
		t.Payload = json.RawMessage(v)
	case "status":
		t.Status = cmp.Or(queue.Status(v), queue.StatusQueued)
	case "queue":
		t.Queue = v
	case "priority":
		if p, err := queue.ParsePriority(v); err == nil {
			t.Priority = p
		} else {
			t.Priority = queue.PriorityNormal
		}
	case "created_at":
		t.CreatedAt = parseSeconds(v)
	case "started_at":
		t.StartedAt = parseSeconds(v)
	case "completed_at":
		t.CompletedAt = parseSeconds(v)
	case "failed_at":
		t.FailedAt = parseSeconds(v)
	case "requeued_at":
		t.RequeuedAt = parseSeconds(v)
	case "run_at":
		t.RunAt = parseSeconds(v)
	case "deadline":
		t.Deadline = parseSeconds(v)
	case "max_retries":
		t.MaxRetries = parseCount(v, b.o.MaxRetries)
	case "retry_count":
		t.RetryCount = parseCount(v, 0)
	case "attempt":
		t.Attempt = parseInt(v)
	case "generation":
		t.Generation = parseInt(v)
	case "crash_count":
		t.CrashCount = parseCount(v, 0)
	case "death_count":
		t.DeathCount = parseCount(v, 0)
	case "worker_id":
		t.WorkerID = v
	case "previous_worker":
		t.PreviousWorker = v
	case "last_error":
		t.LastError = v
	case "error_code":
		t.ErrorCode = v
	case "timeout":
		t.Timeout = parseDuration(v)
	case "result_ttl":
		t.ResultTTL = parseDuration(v)
	case "cancel_requested":
		t.CancelRequested = v == "1"
	case "unique_key":
		t.UniqueKey = v
	case "trace":
		t.Trace = v
	case "exclude":
		t.Exclude = nil
		if v != "" {
			_ = json.Unmarshal([]byte(v), &t.Exclude) // a foreign value that is no list excludes nobody
		}
	case "labels":
		t.Labels = nil
		if v != "" {
			_ = json.Unmarshal([]byte(v), &t.Labels) // as above
		}
	default:
		if t.Extra == nil {
			t.Extra = map[string]string{}
		}
		t.Extra[name] = v
	}
}

// listFields are the fields that a listing reads: everything of ours but the
// payload.
var listFields = strings.Fields(`type status priority queue created_at started_at completed_at failed_at requeued_at run_at
	deadline max_retries retry_count attempt generation crash_count death_count worker_id previous_worker last_error
	error_code timeout result_ttl cancel_requested unique_key trace exclude labels`)

// parseSeconds reads Unix seconds with a fraction; nonsense is the zero time.
func parseSeconds(s string) time.Time {
	if s == "" {
		return time.Time{}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f <= 0 || f > 1e11 {
		return time.Time{}
	}
	return time.UnixMilli(int64(math.Round(f * 1000))).UTC()
}

func formatSeconds(t time.Time) string {
	return fmt.Sprintf("%.3f", float64(t.UnixMilli())/1000)
}

// parseDuration reads seconds with a fraction; nonsense is zero.
func parseDuration(s string) time.Duration {
	if s == "" {
		return 0
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f <= 0 || f > 1e9 {
		return 0
	}
	return time.Duration(f * float64(time.Second))
}

// parseCount mirrors count() in common.lua.
func parseCount(s string, missing int) int {
	if n, err := strconv.Atoi(s); err == nil && n >= 0 {
		return min(n, 1000)
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || math.IsNaN(f) || f < 0:
		return missing
	case f > 1000:
		return 1000
	}
	return int(f)
}

func parseInt(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func millis(s string) time.Time { return time.UnixMilli(parseInt(s)).UTC() }
