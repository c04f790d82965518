package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/autobot-fleet/autobot/agent/spool"
	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/queue"
)

// runOne runs one task to its end and returns it.
func runOne(t *testing.T, change func(*queue.Task), run func(context.Context, Job, func(executors.Event)) (JobOutcome, error)) (*rig, fakeTask) {
	t.Helper()
	r := newRig(t, 2)
	r.h.status[0].Types[0].MaxTimeout = time.Minute
	r.h.run = run
	r.q.add("normal:general", "t1", "general", func(t *queue.Task) { t.MaxRetries = 0 }, change)
	r.start()
	rest(3 * time.Minute)
	task := r.q.task("t1")
	r.wantCleanEnd()
	r.wantNoProblems()
	return r, task
}

func asIs(*queue.Task) {}

func TestFailuresAreToldToTheQueue(t *testing.T) {
	t.Parallel()
	fail := func(err error) func(context.Context, Job, func(executors.Event)) (JobOutcome, error) {
		return func(context.Context, Job, func(executors.Event)) (JobOutcome, error) { return JobOutcome{}, err }
	}
	retry := executors.Errorf(executors.CodeResourceExhausted, "busy")
	retry.Delay = 7 * time.Second
	for _, tt := range []struct {
		name   string
		change func(*queue.Task)
		run    func(context.Context, Job, func(executors.Event)) (JobOutcome, error)
		want   queue.Failure
		text   string
	}{
		{"bad input is final", asIs, fail(executors.Invalid("text", "is empty")), queue.Failure{Code: "INVALID_INPUT", Delay: -1}, "text: is empty"},
		{"an engine error may be retried", asIs, fail(fmt.Errorf("boom")), queue.Failure{Code: "ENGINE_ERROR", Retryable: true, Delay: -1}, "boom"},
		{"a missing engine goes elsewhere", asIs, fail(executors.Errorf(executors.CodeEngineUnavailable, "no espeak-ng")), queue.Failure{Code: "ENGINE_UNAVAILABLE", Retryable: true, Exclude: true, Delay: -1}, "espeak"},
		{"a wished delay is kept", asIs, fail(retry), queue.Failure{Code: "RESOURCE_EXHAUSTED", Retryable: true, Delay: 7 * time.Second}, "busy"},
		{"a crash counts", asIs, fail(&CrashError{Executor: "general", Exit: "signal: killed", Culprit: true}), queue.Failure{Code: "PLUGIN_CRASHED", Retryable: true, Crashed: true, Delay: -1}, "signal: killed"},
		{"a crash alone is poison", func(t *queue.Task) { t.CrashCount = 1 }, fail(&CrashError{Executor: "general", Exit: "signal: killed", Solo: true, Culprit: true}), queue.Failure{Code: "POISON", Poison: true, Crashed: true, Delay: -1}, "alone"},
		{"a crash among others is not poison", func(t *queue.Task) { t.CrashCount = 1 }, fail(&CrashError{Executor: "general", Exit: "signal: killed"}), queue.Failure{Code: "PLUGIN_CRASHED", Retryable: true, Crashed: true, Delay: -1}, ""},
		{"invalid UTF-8 is replaced", asIs, fail(executors.Errorf(executors.CodeNotFound, "\xff\xfe is not there")), queue.Failure{Code: "NOT_FOUND", Delay: -1}, "\uFFFD is not there"},
		{"no JSON", func(t *queue.Task) { t.Payload = []byte(`{`) }, nil, queue.Failure{Code: "INVALID_INPUT", Delay: -1}, "payload"},
		{"NaN", func(t *queue.Task) { t.Payload = []byte(`{"x":NaN}`) }, nil, queue.Failure{Code: "INVALID_INPUT", Delay: -1}, "payload"},
		{"not UTF-8", func(t *queue.Task) { t.Payload = []byte("{\"x\":\"\xcb\"}") }, nil, queue.Failure{Code: "INVALID_INPUT", Delay: -1}, "UTF-8"},
		{"a timeout that is no number", func(t *queue.Task) { t.Payload = []byte(`{"timeout_ms":"soon"}`) }, nil, queue.Failure{Code: "INVALID_INPUT", Delay: -1}, "timeout_ms"},
		{"a timeout too short", func(t *queue.Task) { t.Payload = []byte(`{"timeout_ms":5}`) }, nil, queue.Failure{Code: "INVALID_INPUT", Delay: -1}, "timeout_ms"},
		{"a TTL too long", func(t *queue.Task) { t.Payload = []byte(`{"artifacts":{"ttl_s":9999999}}`) }, nil, queue.Failure{Code: "INVALID_INPUT", Delay: -1}, "artifacts.ttl_s"},
		{"too slow for its payload", func(t *queue.Task) { t.Payload = []byte(`{"timeout_ms":1500}`) }, untilCancelled, queue.Failure{Code: "DEADLINE_EXCEEDED", Retryable: true, Delay: -1}, "1.5s"},
		{"too slow for its executor", func(t *queue.Task) { t.Payload = []byte(`{"timeout_ms":99999999}`) }, untilCancelled, queue.Failure{Code: "DEADLINE_EXCEEDED", Retryable: true, Delay: -1}, "1m0s"},
		{"its own deadline passed while it ran", func(t *queue.Task) { t.Deadline = time.Now().Add(5 * time.Second) }, untilCancelled, queue.Failure{Code: "DEADLINE_EXCEEDED", Delay: -1}, "deadline passed"},
		{"its own deadline passed before", func(t *queue.Task) { t.Deadline = time.Now().Add(-time.Second) }, nil, queue.Failure{Code: "DEADLINE_EXCEEDED", Delay: -1}, "before it could start"},
		{"an output that is no object", asIs, func(context.Context, Job, func(executors.Event)) (JobOutcome, error) { return done(`[1]`), nil }, queue.Failure{Code: "ENGINE_ERROR", Retryable: true, Delay: -1}, "not a JSON object"},
		{"an output with a reserved name", asIs, func(context.Context, Job, func(executors.Event)) (JobOutcome, error) { return done(`{"meta":1}`), nil }, queue.Failure{Code: "ENGINE_ERROR", Retryable: true, Delay: -1}, "reserved"},
		{"an artifact that is not there", asIs, func(_ context.Context, _ Job, sink func(executors.Event)) (JobOutcome, error) {
			sink(executors.Event{Artifact: &executors.Artifact{Name: "nothing.wav"}})
			return done(`{}`), nil
		}, queue.Failure{Code: "ENGINE_ERROR", Delay: -1}, "nothing.wav"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				run := tt.run
				if run == nil {
					run = func(context.Context, Job, func(executors.Event)) (JobOutcome, error) {
						t.Error("the task was started")
						return done(`{}`), nil
					}
				}
				_, task := runOne(t, tt.change, run)
				if task.fail == nil {
					t.Fatalf("the task is %s", task.Status)
				}
				got := *task.fail
				if !strings.Contains(got.Message, tt.text) {
					t.Errorf("message %q, want %q in it", got.Message, tt.text)
				}
				var doc struct {
					Error     executors.Error   `json:"error"`
					Artifacts []json.RawMessage `json:"artifacts"`
					Meta      meta              `json:"meta"`
				}
				if err := json.Unmarshal(got.Document, &doc); err != nil || !utf8.Valid(got.Document) {
					t.Errorf("document %s: %v", got.Document, err)
				}
				if string(doc.Error.Code) != tt.want.Code || doc.Error.Retryable != tt.want.Retryable || doc.Artifacts == nil || doc.Meta.Status != "failed" || doc.Meta.Attempt != 1 {
					t.Errorf("document %s", got.Document)
				}
				got.Message, got.Document = "", nil
				if fmt.Sprint(got) != fmt.Sprint(tt.want) {
					t.Errorf("got  %+v\nwant %+v", got, tt.want)
				}
			})
		})
	}
}

func TestATaskThatCrashedRunsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.h.run = func(_ context.Context, job Job, _ func(executors.Event)) (JobOutcome, error) {
			if !job.Solo {
				return JobOutcome{}, &CrashError{Executor: "general", Exit: "exit status 2", LastOutput: "panic: \xff"}
			}
			return done(`{}`), nil
		}
		r.q.add("normal:general", "t1", "general")
		r.start()
		rest(time.Minute)
		if task := r.wantStatus("t1", queue.StatusCompleted); task.CrashCount != 1 || task.RetryCount != 1 {
			t.Errorf("%+v", task.Task)
		}
		r.wantCleanEnd()
	})
}

func TestANeighboursFaultCountsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, task := runOne(t, asIs, func(_ context.Context, job Job, _ func(executors.Event)) (JobOutcome, error) {
			if job.Task.Attempt == 1 {
				return JobOutcome{}, fmt.Errorf("stop: %w", ErrReplaced)
			}
			return done(`{}`), nil
		})
		if task.Status != queue.StatusCompleted || task.RetryCount != 0 || task.starts != 2 {
			t.Errorf("%+v", task.Task)
		}
	})
}

func TestArtifactsAreKeptBeforeTheTaskIsFinished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dir string
		r, task := runOne(t, func(t *queue.Task) { t.Payload = []byte(`{"artifacts":{"inline_max_bytes":100,"ttl_s":60}}`) },
			func(_ context.Context, job Job, sink func(executors.Event)) (JobOutcome, error) {
				dir = job.Task.SpoolDir
				if err := os.WriteFile(filepath.Join(dir, "a.wav"), []byte("RIFF"), 0o600); err != nil {
					return JobOutcome{}, err
				}
				sink(executors.Event{Artifact: &executors.Artifact{Name: "a.wav", Kind: "audio", MediaType: "audio/wav"}})
				return done(`{"n":130775545883395173,"s":"<&>"}`), nil
			})
		var doc struct {
			Artifacts []spool.Record `json:"artifacts"`
		}
		if err := json.Unmarshal(task.result, &doc); err != nil || len(doc.Artifacts) != 1 {
			t.Fatalf("result %s: %v (failure %+v)", task.result, err, task.fail)
		}
		a := doc.Artifacts[0]
		if a.Name != "a.wav" || a.Bytes != 4 || len(a.SHA256) != 64 || a.InlineBase64 == "" || !strings.Contains(a.URL, a.SHA256) {
			t.Errorf("record %+v", a)
		}
		if !bytes.HasPrefix(task.result, []byte(`{"n":130775545883395173,"s":"<&>",`)) {
			t.Errorf("the output's bytes were changed: %s", task.result)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("the spool directory is left: %v", err)
		}
		_ = r
	})
}

func TestArtifactsAreKeptAsLongAsTheResult(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{`{}`, `{"artifacts":{"ttl_s":60}}`} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			_, task := runOne(t, func(t *queue.Task) { t.Payload, t.ResultTTL = []byte(payload), 48*time.Hour },
				func(_ context.Context, job Job, sink func(executors.Event)) (JobOutcome, error) {
					if err := os.WriteFile(filepath.Join(job.Task.SpoolDir, "a"), []byte("a"), 0o600); err != nil {
						return JobOutcome{}, err
					}
					sink(executors.Event{Artifact: &executors.Artifact{Name: "a"}})
					return done(`{}`), nil
				})
			var doc struct {
				Artifacts []spool.Record `json:"artifacts"`
			}
			if err := json.Unmarshal(task.result, &doc); err != nil || len(doc.Artifacts) != 1 {
				t.Fatalf("result %s: %v", task.result, err)
			}
			if kept := doc.Artifacts[0].ExpiresAt.Sub(began); kept < 48*time.Hour-time.Second {
				t.Errorf("payload %s: kept for %v", payload, kept)
			}
		})
	}
}

func TestAFailureKeepsItsArtifactsAndOutput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, task := runOne(t, asIs, func(_ context.Context, job Job, sink func(executors.Event)) (JobOutcome, error) {
			if err := os.WriteFile(filepath.Join(job.Task.SpoolDir, "failure.png"), []byte("PNG"), 0o600); err != nil {
				return JobOutcome{}, err
			}
			sink(executors.Event{Artifact: &executors.Artifact{Name: "failure.png", Kind: "image", MediaType: "image/png"}})
			e := executors.Errorf(executors.CodeElementNotFound, "no button")
			e.Output = json.RawMessage(`{"steps":[1,2]}`)
			return JobOutcome{}, e
		})
		var doc struct {
			Steps     []int          `json:"steps"`
			Artifacts []spool.Record `json:"artifacts"`
		}
		if err := json.Unmarshal(task.fail.Document, &doc); err != nil || len(doc.Steps) != 2 || len(doc.Artifacts) != 1 {
			t.Errorf("document %s: %v", task.fail.Document, err)
		}
	})
}

func TestALargeOutputBecomesAnArtifact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		big := `{"data":"` + strings.Repeat("x", queue.MaxResult) + `"}`
		_, task := runOne(t, asIs, func(context.Context, Job, func(executors.Event)) (JobOutcome, error) { return done(big), nil })
		var doc struct {
			Data      string         `json:"data"`
			Artifacts []spool.Record `json:"artifacts"`
			Meta      meta           `json:"meta"`
		}
		if err := json.Unmarshal(task.result, &doc); err != nil {
			t.Fatalf("%v (failure %+v)", err, task.fail)
		}
		if doc.Data != "" || len(doc.Artifacts) != 1 || doc.Artifacts[0].Bytes != int64(len(big)) || len(doc.Meta.Warnings) != 1 || doc.Meta.Warnings[0].Code != "OUTPUT_OFFLOADED" {
			t.Errorf("result %.300s", task.result)
		}
		if len(task.result) > queue.MaxResult {
			t.Errorf("the result is %d bytes", len(task.result))
		}
	})
}

func TestProgressIsThinnedOutAndTheLastEventArrives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, task := runOne(t, asIs, func(_ context.Context, job Job, sink func(executors.Event)) (JobOutcome, error) {
			task := executors.NewTask(job.Task, sink)
			for i := range 100 {
				percent := i
				if i%10 == 5 {
					percent = 1 // must not go back
				}
				task.Progress(executors.Progress{Percent: percent, Stage: "synthesize", Done: int64(i), Total: 100, Unit: "segment", Message: strings.Repeat("ä", 300)})
				time.Sleep(50 * time.Millisecond)
			}
			task.Progress(executors.Progress{Percent: 250, Stage: "encode"})
			return done(`{}`), nil
		})
		if n := len(task.prog); n < 8 || n > 13 {
			t.Errorf("%d events in five seconds, want two a second", n)
		}
		last := -1
		for i, raw := range task.prog {
			var e progressEvent
			if err := json.Unmarshal(raw, &e); err != nil {
				t.Fatal(err)
			}
			if e.Seq != i+1 || e.Percent < last || utf8.RuneCountInString(e.Message) > executors.MaxProgress || e.Time.IsZero() {
				t.Errorf("event %d: %s", i, raw)
			}
			last = e.Percent
			if i == len(task.prog)-1 && (e.Percent != 100 || e.Stage != "encode") {
				t.Errorf("last event: %s", raw)
			}
		}
	})
}

func TestTheShortestLimitHolds(t *testing.T) {
	t.Parallel()
	typ := TypeStatus{DefaultTimeout: time.Minute, MaxTimeout: 10 * time.Minute}
	for _, tt := range []struct {
		name          string
		payload, task time.Duration
		left          time.Duration
		typ           TypeStatus
		want          budget
	}{
		{"the type's default", 0, 0, 0, typ, budget{limit: time.Minute}},
		{"an hour when nobody says", 0, 0, 0, TypeStatus{}, budget{limit: time.Hour}},
		{"the payload's", 5 * time.Minute, 0, 0, typ, budget{limit: 5 * time.Minute}},
		{"the task's", 0, 30 * time.Second, 0, typ, budget{limit: 30 * time.Second}},
		{"the shorter of both", 20 * time.Second, 30 * time.Second, 0, typ, budget{limit: 20 * time.Second}},
		{"the executor's", time.Hour, time.Hour, 0, typ, budget{limit: 10 * time.Minute}},
		{"the task's deadline", time.Hour, 0, 3 * time.Second, typ, budget{limit: 3 * time.Second, final: true}},
		{"a deadline that is over", 0, 0, -time.Second, typ, budget{limit: -time.Second, final: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := effective(common{timeout: tt.payload}, queue.Task{Timeout: tt.task}, tt.left, tt.typ)
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestWeightedSweepsStarveNobody(t *testing.T) {
	t.Parallel()
	queues := queue.WatchedQueues([]string{"a", "b"}, []string{"plain"})
	first := map[int]int{}
	var w wheel
	for range 150 {
		got := w.next(queues)
		if len(got) != len(queues) {
			t.Fatalf("%d queues of %d", len(got), len(queues))
		}
		first[group(got[0])]++
	}
	if first[0] != 80 || first[1] != 40 || first[2] != 20 || first[3] != 10 {
		t.Errorf("shares %v, want 8:4:2:1", first)
	}
}

func TestServedSlotsAndQueues(t *testing.T) {
	t.Parallel()
	s := serve([]ExecutorStatus{
		{Name: "down", State: "crashed", Concurrency: 5, Types: []TypeStatus{{Type: "tts"}}},
		{Name: "tts", State: "ready", Concurrency: 2, Types: []TypeStatus{{Type: "tts"}}},
		{Name: "openvino", State: "ready", Concurrency: 3, Types: []TypeStatus{{Type: "vision"}, {Type: "embedding"}, {Type: "tts"}, {Type: "Bad:Type"}}},
	}, []string{PlainAuto, "extra", "tts"})
	if got := fmt.Sprint(s.names); got != "[embedding tts vision]" {
		t.Errorf("types %s", got)
	}
	if s.executor("tts") != "tts" || s.executor("nothing") != "" {
		t.Errorf("tts goes to %q", s.executor("tts"))
	}
	want := "[critical:embedding critical:tts critical:vision high:embedding high:tts high:vision normal:embedding normal:tts normal:vision " +
		"low:embedding low:tts low:vision embedding tts vision npu_tasks ai_stack_tasks extra]"
	if got := fmt.Sprint(s.queues); got != want {
		t.Errorf("queues\n %s, want\n %s", got, want)
	}
	free, total := s.room(map[string]int{"tts": 2, "openvino": 1}, 3, 4)
	if fmt.Sprint(free, total) != "[0 0 2] 1" {
		t.Errorf("room %v %d", free, total)
	}
	open := s.open(s.queues, free, map[string]bool{"extra": true})
	if got := fmt.Sprint(open); strings.Contains(got, "tts ") || strings.Contains(got, "extra") || !strings.Contains(got, "npu_tasks") {
		t.Errorf("open %s", got)
	}
	if s := serve(nil, []string{"extra"}); len(s.queues) != 0 {
		t.Errorf("nothing is served, but %v are watched", s.queues)
	}
}
