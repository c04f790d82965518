package fleet

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/autobot-fleet/autobot/queue"
)

func full() Heartbeat {
	busy := 12.5
	return Heartbeat{
		WorkerID: "npu-1", Timestamp: 1710000000.25, Load: 3, TasksActive: 3,
		Capabilities: []string{"npu_inference", "vision"}, MemoryMB: 1024,
		NodeID: "n", Generation: 1796037562123, Status: StatusDegraded, Reason: "memory is at 97 %",
		MaxConcurrent: 4, CPUPercent: 55.5, CPUStealPercent: 1, LoadAvg: [3]float64{1, 2, 3},
		MemoryPercent: 97, MemoryAvailableMB: 64, SwapPercent: 3, DiskPercent: 60, UptimeSeconds: 12,
		NPU:       NPU{Present: true, BusyPercent: &busy},
		Executors: []Executor{{Name: "tts", Version: "1.0", Types: []string{"tts"}, State: "ready"}},
		Version:   "0.1.0", StartedAt: 1709990000, ClockSkewMS: -4,
	}
}

func TestHeartbeatSurvivesTheRoundTrip(t *testing.T) {
	t.Parallel()
	got, err := ParseHeartbeat(full().Marshal())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(full(), got); d != "" {
		t.Error(d)
	}
	if want := time.Unix(1710000000, 250_000_000).UTC(); !got.Time().Equal(want) {
		t.Errorf("Time() = %v, want %v", got.Time(), want)
	}
}

func TestMarshalKeepsTheNamesThatOthersRead(t *testing.T) {
	t.Parallel()
	var fields map[string]any
	if err := json.Unmarshal(Heartbeat{WorkerID: "w"}.Marshal(), &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"worker_id", "timestamp", "load", "tasks_active", "capabilities", "memory_mb"} {
		if _, ok := fields[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	if _, isList := fields["capabilities"].([]any); !isList {
		t.Errorf("capabilities of a worker without any is %v, want an empty list", fields["capabilities"])
	}
}

func TestMarshalTurnsImpossibleNumbersIntoZero(t *testing.T) {
	t.Parallel()
	h := full()
	nan := math.NaN()
	h.CPUPercent, h.LoadAvg[1], h.NPU.BusyPercent = math.Inf(1), math.NaN(), &nan
	got, err := ParseHeartbeat(h.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	if got.CPUPercent != 0 || got.LoadAvg[1] != 0 || *got.NPU.BusyPercent != 0 {
		t.Errorf("got %v, %v, %v", got.CPUPercent, got.LoadAvg[1], *got.NPU.BusyPercent)
	}
}

func TestParseHeartbeatTakesWhatMakesSense(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, doc string
		want      Heartbeat
	}{
		{"an empty object is a heartbeat", `{}`, Heartbeat{}},
		{
			"the shortest one in use", `{"worker_id":"w","timestamp":1.5,"load":0,"tasks_active":0}`,
			Heartbeat{WorkerID: "w", Timestamp: 1.5},
		},
		{
			"numbers may be texts and fractions", `{"load":"2","tasks_active":2.0,"generation":"1796037562123456"}`,
			Heartbeat{Load: 2, TasksActive: 2, Generation: 1796037562123456},
		},
		{
			"lists may be JSON in a text", `{"capabilities":"[\"a\", \"b\"]"}`,
			Heartbeat{Capabilities: []string{"a", "b"}},
		},
		{"a single capability may be a text", `{"capabilities":"tts"}`, Heartbeat{Capabilities: []string{"tts"}}},
		{
			"wrong types cost only their field", `{"worker_id":{"a":1},"load":[1],"npu":7,"executors":[1,{"name":"x"},{}],"capabilities":["a",null,{"b":1}],"status":"active"}`,
			Heartbeat{Status: "active", Capabilities: []string{"a"}, Executors: []Executor{{Name: "x"}}},
		},
		{"counts are never negative or absurd", `{"tasks_active":-4,"max_concurrent":1e300}`, Heartbeat{}},
		{"control characters are dropped", `{"reason":"a\u001b[31mb\n"}`, Heartbeat{Reason: "a[31mb"}},
		{"more load averages than three are dropped", `{"load_avg":[1,2,3,4]}`, Heartbeat{LoadAvg: [3]float64{1, 2, 3}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseHeartbeat([]byte(tt.doc))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestParseHeartbeatRefusesWhatIsNoDocument(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{"", "alive", "[1]", `"x"`, "12", `{"load":NaN}`, `{"a":"` + strings.Repeat("x", maxHeartbeat) + `"}`} {
		if _, err := ParseHeartbeat([]byte(doc)); err == nil {
			t.Errorf("%.20q was taken for a heartbeat", doc)
		}
	}
}

func FuzzParseHeartbeat(f *testing.F) {
	f.Add([]byte(full().Marshal()))
	f.Add([]byte(`{"capabilities":"[[\"a\"]]","load_avg":[null],"npu":{"present":"true","busy_percent":null}}`))
	f.Add([]byte(`{"timestamp":1e308,"generation":9223372036854775807,"executors":[[]]}`))
	f.Add([]byte("\x00\xff"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		h, err := ParseHeartbeat(doc)
		if err != nil {
			return
		}
		if len(h.Capabilities) > maxCapabilities || len(h.Executors) > maxExecutors || h.TasksActive < 0 || h.MaxConcurrent < 0 {
			t.Fatalf("limits broken: %+v", h)
		}
		for _, s := range append([]string{h.WorkerID, h.Status, h.Reason, h.Version, h.NodeID}, h.Capabilities...) {
			if utf8.RuneCountInString(s) > maxText || !utf8.ValidString(s) {
				t.Fatalf("text %q breaks the limits", s)
			}
		}
		again, err := ParseHeartbeat(h.Marshal())
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
		if h.Capabilities == nil {
			again.Capabilities = nil
		}
		_ = View(queue.WorkerRecord{Alive: true, Heartbeat: doc})
	})
}

func TestViewTellsTheStateAndWhy(t *testing.T) {
	t.Parallel()
	beat := func(mutate func(*Heartbeat)) json.RawMessage {
		h := full()
		h.Status, h.Reason = StatusActive, ""
		mutate(&h)
		return h.Marshal()
	}
	for _, tt := range []struct {
		name   string
		mutate func(*queue.WorkerRecord)
		state  State
		reason string // part of it; "" means none
	}{
		{"a beating worker is alive", func(*queue.WorkerRecord) {}, Alive, ""},
		{"a worker without heartbeat is dead", func(r *queue.WorkerRecord) { r.Alive, r.Heartbeat = false, nil }, Dead, "no heartbeat"},
		{"a dead worker with tasks says what follows", func(r *queue.WorkerRecord) { r.Alive, r.Heartbeat, r.Tasks = false, nil, 2 }, Dead, "moves its tasks"},
		{"a cordoned worker drains", func(r *queue.WorkerRecord) { r.Cordoned = true }, Draining, "operator"},
		{
			"a worker that was drained on its machine says so",
			func(r *queue.WorkerRecord) {
				r.Cordoned = true
				r.Heartbeat = beat(func(h *Heartbeat) { h.Status, h.Reason = StatusDraining, DrainedHere })
			}, Draining, "autobot-agent resume",
		},
		{"dead wins over cordoned", func(r *queue.WorkerRecord) { r.Alive, r.Cordoned = false, true }, Dead, "no heartbeat"},
		{
			"a worker that shuts down drains",
			func(r *queue.WorkerRecord) {
				r.Heartbeat = beat(func(h *Heartbeat) { h.Status = StatusDraining })
			}, Draining, "shutting down",
		},
		{
			"a degraded worker is alive and says why",
			func(r *queue.WorkerRecord) {
				r.Heartbeat = beat(func(h *Heartbeat) { h.Status, h.Reason = StatusDegraded, "disk is full" })
			}, Alive, "disk is full",
		},
		{"an unreadable heartbeat is a sign of life", func(r *queue.WorkerRecord) { r.Heartbeat = json.RawMessage("up") }, Alive, "not a JSON object"},
		{"an unregistered worker is said to be one", func(r *queue.WorkerRecord) { r.Registered = false }, Alive, "without being registered"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := queue.WorkerRecord{ID: "npu-1", Registered: true, Alive: true, Heartbeat: beat(func(*Heartbeat) {})}
			tt.mutate(&r)
			w := View(r)
			if w.State != tt.state || !strings.Contains(w.Reason, tt.reason) || (tt.reason == "") != (w.Reason == "") {
				t.Errorf("state %s, reason %q; want %s, %q", w.State, w.Reason, tt.state, tt.reason)
			}
		})
	}
}

func TestServesReadsTheNewestWord(t *testing.T) {
	t.Parallel()
	r := queue.WorkerRecord{Alive: true, Capabilities: []string{"tts"}}
	if w := View(r); !w.Serves("tts") {
		t.Error("without a heartbeat the registration counts")
	}
	r.Heartbeat = full().Marshal()
	if w := View(r); w.Serves("tts") || !w.Serves("vision") {
		t.Error("with a heartbeat its capabilities count")
	}
}
