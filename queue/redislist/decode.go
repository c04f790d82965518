package redislist

import (
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
	t := queue.Task{
		ID:              id,
		Type:            h["type"],
		Payload:         json.RawMessage(h["payload"]),
		Status:          queue.Status(h["status"]),
		Queue:           h["queue"],
		CreatedAt:       parseSeconds(h["created_at"]),
		StartedAt:       parseSeconds(h["started_at"]),
		CompletedAt:     parseSeconds(h["completed_at"]),
		FailedAt:        parseSeconds(h["failed_at"]),
		RequeuedAt:      parseSeconds(h["requeued_at"]),
		RunAt:           parseSeconds(h["run_at"]),
		Deadline:        parseSeconds(h["deadline"]),
		MaxRetries:      parseCount(h["max_retries"], b.o.MaxRetries),
		RetryCount:      parseCount(h["retry_count"], 0),
		Attempt:         parseInt(h["attempt"]),
		Generation:      parseInt(h["generation"]),
		CrashCount:      parseCount(h["crash_count"], 0),
		DeathCount:      parseCount(h["death_count"], 0),
		WorkerID:        h["worker_id"],
		PreviousWorker:  h["previous_worker"],
		LastError:       h["last_error"],
		ErrorCode:       h["error_code"],
		Timeout:         parseDuration(h["timeout"]),
		ResultTTL:       parseDuration(h["result_ttl"]),
		CancelRequested: h["cancel_requested"] == "1",
		UniqueKey:       h["unique_key"],
		Trace:           h["trace"],
	}
	if t.Status == "" {
		t.Status = queue.StatusQueued
	}
	if t.Type == "" {
		t.Type = "default" // what the seed's monitor takes for a missing type
	}
	if p, err := queue.ParsePriority(h["priority"]); err == nil {
		t.Priority = p
	} else {
		t.Priority = queue.PriorityNormal
	}
	if s := h["exclude"]; s != "" {
		_ = json.Unmarshal([]byte(s), &t.Exclude) // a foreign value that is no list excludes nobody
	}
	if s := h["labels"]; s != "" {
		_ = json.Unmarshal([]byte(s), &t.Labels) // as above
	}
	for k, v := range h {
		if !knownFields[k] {
			if t.Extra == nil {
				t.Extra = map[string]string{}
			}
			t.Extra[k] = v
		}
	}
	return t
}

// listFields are the fields that a listing reads: everything of ours but the
// payload.
var listFields = strings.Fields(`type status priority queue created_at started_at completed_at failed_at requeued_at run_at
	deadline max_retries retry_count attempt generation crash_count death_count worker_id previous_worker last_error
	error_code timeout result_ttl cancel_requested unique_key trace exclude labels`)

var knownFields = func() map[string]bool {
	m := map[string]bool{"id": true, "payload": true}
	for _, f := range listFields {
		m[f] = true
	}
	return m
}()

// flatMap turns a flat list of names and values into a map.
func flatMap(flat []string) map[string]string {
	m := make(map[string]string, len(flat)/2)
	for i := 0; i+1 < len(flat); i += 2 {
		m[flat[i]] = flat[i+1]
	}
	return m
}

// parseSeconds reads Unix seconds with a fraction; nonsense is the zero time.
func parseSeconds(s string) time.Time {
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
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f <= 0 || f > 1e9 {
		return 0
	}
	return time.Duration(f * float64(time.Second))
}

// parseCount mirrors count() in common.lua.
func parseCount(s string, missing int) int {
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
