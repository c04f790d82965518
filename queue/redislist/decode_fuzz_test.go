package redislist

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/queue"
)

// FuzzTaskHash: a hash that anybody may have written is a task whose numbers
// are within their limits and that can be shown.
func FuzzTaskHash(f *testing.F) {
	for _, s := range []string{
		"", "status", "status,queued,type,general,payload,{}", "max_retries,1e30,retry_count,-1,attempt,nan,created_at,inf",
		"exclude,[1],labels,[],deadline,-5,timeout,1e300,run_at,1e11", "priority,4,priority,urgent,\xff,\xfe", "max_retries,0x1p9,crash_count,007",
	} {
		f.Add(s)
	}
	b := New(nil, Options{})
	f.Fuzz(func(t *testing.T, s string) {
		task := b.decodeFlat("t1", strings.Split(s, ","))
		if task.ID != "t1" || task.Status == "" || task.Type == "" {
			t.Errorf("%q: id %q, status %q, type %q", s, task.ID, task.Status, task.Type)
		}
		if _, err := queue.ParsePriority(string(task.Priority)); err != nil {
			t.Errorf("%q: %v", s, err)
		}
		for name, n := range map[string]int{
			"max_retries": task.MaxRetries, "retry_count": task.RetryCount, "crash_count": task.CrashCount, "death_count": task.DeathCount,
		} {
			if n < 0 || n > 1000 {
				t.Errorf("%q: %s is %d", s, name, n)
			}
		}
		if task.Timeout < 0 || task.ResultTTL < 0 || task.Deadline.Unix() < 0 && !task.Deadline.IsZero() {
			t.Errorf("%q: timeout %v, result_ttl %v, deadline %v", s, task.Timeout, task.ResultTTL, task.Deadline)
		}
		if _, err := json.Marshal(task); err != nil {
			t.Errorf("%q cannot be shown: %v", s, err)
		}
	})
}
