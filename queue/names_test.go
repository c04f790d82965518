package queue

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		name  string
		check func(string) error
		good  []string
		bad   []string
	}{
		{"task ids", CheckTaskID, []string{"a", "A-b_c.9", strings.Repeat("x", 200)},
			[]string{"", "a:b", "a b", "ä", "a\n", strings.Repeat("x", 201)}},
		{"types", CheckType, []string{"tts", "npu_inference", "a.b-c"}, []string{"", "TTS", "a:b", "processing", strings.Repeat("x", 65)}},
		{"queues", CheckQueue, []string{"npu_tasks", "high:tts", "low:a.b"},
			[]string{"", "high", "a:b", "high:", ":a", "high:a:b", "high:processing", "processing", "a:processing"}},
		{"workers", CheckWorkerID, []string{"npu-worker-1", "VM_22"}, []string{"", "a.b", "w:tasks", strings.Repeat("x", 129)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, s := range tt.good {
				if err := tt.check(s); err != nil {
					t.Errorf("%q is refused: %v", s, err)
				}
			}
			for _, s := range tt.bad {
				var invalid *InvalidError
				if err := tt.check(s); !errors.As(err, &invalid) {
					t.Errorf("%q: got %v, want an InvalidError", s, err)
				}
			}
		})
	}
}

func TestPriorities(t *testing.T) {
	for given, want := range map[string]Priority{"": PriorityNormal, "1": PriorityLow, "2": PriorityNormal, "3": PriorityHigh,
		"4": PriorityCritical, "low": PriorityLow, "critical": PriorityCritical} {
		if got, err := ParsePriority(given); err != nil || got != want {
			t.Errorf("%q: %q, %v", given, got, err)
		}
	}
	for _, given := range []string{"0", "5", "HIGH", "urgent"} {
		if _, err := ParsePriority(given); err == nil {
			t.Errorf("%q is taken", given)
		}
	}
}

func TestWatchedQueuesAreInClaimingOrder(t *testing.T) {
	got := WatchedQueues([]string{"a", "b"}, []string{"plain"})
	want := []string{"critical:a", "critical:b", "high:a", "high:b", "normal:a", "normal:b", "low:a", "low:b", "a", "b", "plain"}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

func TestSubmission(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Submission)
		field  string // of the error; empty means valid
	}{
		{"a type is enough", func(*Submission) {}, ""},
		{"a payload may be an object", func(s *Submission) { s.Payload = json.RawMessage(` {"a":1} `) }, ""},
		{"a payload may not be a list", func(s *Submission) { s.Payload = json.RawMessage(`[1]`) }, "payload"},
		{"a payload may not be null", func(s *Submission) { s.Payload = json.RawMessage(`null`) }, "payload"},
		{"a payload may not hold NaN", func(s *Submission) { s.Payload = json.RawMessage(`{"x":NaN}`) }, "payload"},
		{"a payload may not have trailing data", func(s *Submission) { s.Payload = json.RawMessage(`{} {}`) }, "payload"},
		{"a payload must be UTF-8", func(s *Submission) { s.Payload = json.RawMessage("{\"a\":\"\xff\"}") }, "payload"},
		{"a payload has a limit", func(s *Submission) {
			s.Payload = json.RawMessage(`{"a":"` + strings.Repeat("x", MaxPayload) + `"}`)
		}, "payload"},
		{"a deadline may be far away", func(s *Submission) { s.Deadline = time.Now().Add(1000 * time.Hour) }, ""},
		{"a negative timeout is refused", func(s *Submission) { s.Timeout = -1 }, "timeout"},
		{"a start in twenty years is refused", func(s *Submission) { s.RunAt = time.Now().AddDate(20, 0, 0) }, "run_at"},
		{"an excluded worker must be a name", func(s *Submission) { s.Exclude = []string{"ok", "not ok"} }, "exclude[1]"},
		{"a worker must be a name", func(s *Submission) { s.Worker = "a:b" }, "worker"},
		{"a unique key has a limit", func(s *Submission) { s.UniqueKey = strings.Repeat("k", 513) }, "unique_key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := Submission{Type: "echo"}
			tt.change(&s)
			err := s.Validate()
			var invalid *InvalidError
			switch {
			case tt.field == "" && err != nil:
				t.Fatalf("refused: %v", err)
			case tt.field != "" && (!errors.As(err, &invalid) || invalid.Field != tt.field):
				t.Fatalf("got %v, want an error about %s", err, tt.field)
			}
		})
	}
}

// FuzzNames: whatever is accepted as a name cannot collide with the key
// grammar, and no refusal shows more than a glimpse of what was given.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"", "a", "a:b", "high:tts", "x:processing", "t:result", "\xff", strings.Repeat("x", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, check := range []func(string) error{CheckTaskID, CheckType, CheckWorkerID} {
			if err := check(s); err == nil && strings.ContainsAny(s, ": \n\x00") {
				t.Errorf("%q is accepted", s)
			} else if err != nil && (len(err.Error()) > 600 || !utf8.ValidString(err.Error())) {
				t.Errorf("the refusal of %q is %q", s, err)
			}
		}
		if CheckQueue(s) == nil && (strings.HasSuffix(s, ":processing") || strings.Count(s, ":") > 1) {
			t.Errorf("queue %q is accepted", s)
		}
		if _, err := ParsePriority(s); err == nil && len(s) > 8 {
			t.Errorf("priority %q is accepted", s)
		}
	})
}

// FuzzPayload: what passes is one JSON object for every reader.
func FuzzPayload(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, `{"a":1}x`, `null`, `[`, `{"a":NaN}`, "\ufeff{}", `{"a":1,"a":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if CheckPayloadJSON(p) != nil {
			return
		}
		var v map[string]any
		if err := json.Unmarshal(p, &v); err != nil || v == nil {
			t.Errorf("%q passes and is not an object: %v", p, err)
		}
	})
}
