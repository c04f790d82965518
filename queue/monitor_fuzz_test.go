package queue

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzFailoverEvent: an entry of the failover log, in whatever shape, says the
// same when it is written and read again.
func FuzzFailoverEvent(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `[]`, `{"worker":"w","tasks":2,"time":1710000000.5}`, `{"event":"worker_failover","worker_id":"w","orphaned_tasks":-1}`,
		`{"event":7}`, `{"Worker":"w","TASKS":1e3}`, `{"timestamp":1e309}`, `{"worker_id":"a","worker_id":"b"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var e FailoverEvent
		if json.Unmarshal(raw, &e) != nil {
			return
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		var again FailoverEvent
		if err := json.Unmarshal(text, &again); err != nil || !cmp.Equal(e, again) {
			t.Errorf("%q is %+v, read again %+v, %v", raw, e, again, err)
		}
	})
}
