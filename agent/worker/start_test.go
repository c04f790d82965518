package worker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestUncleanExitIsCountedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		if err := (stateFiles{r.dir}).registered(41); err != nil {
			t.Fatal(err)
		}
		r.h.left = 3
		r.start()
		rest(5 * time.Second)
		r.wantCleanEnd()
		if !slices.Equal(r.q.recovered, []bool{true}) {
			t.Errorf("recover calls: %v, want one unclean", r.q.recovered)
		}
		if r.q.generation != 42 {
			t.Errorf("generation %d: the state folder's was not heeded", r.q.generation)
		}

		r.make(1)
		r.q.deregisters, r.q.afterEnd, r.q.recovered = 0, nil, nil
		r.start()
		rest(time.Second)
		r.wantCleanEnd()
		if !slices.Equal(r.q.recovered, []bool{false}) {
			t.Errorf("recover calls after a clean stop: %v", r.q.recovered)
		}
	})
}

func TestAnIDInUseIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.q.otherNode = true
		r.start()
		rest(5 * time.Second)
		if s := r.Status(); s.Claiming || !strings.Contains(s.Reason, "uses the worker id") {
			t.Errorf("status: %+v", s)
		}
		r.q.mu.Lock()
		r.q.otherNode = false
		r.q.mu.Unlock()
		rest(5 * time.Second)
		if s := r.Status(); !s.Claiming {
			t.Errorf("status: %+v", s)
		}
		r.wantCleanEnd()
	})
}

func TestStartWaitsForTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.q.setFault(func(string) error { return errAway })
		r.start()
		rest(time.Minute)
		if s := r.Status(); !strings.Contains(s.Reason, "does not serve") {
			t.Errorf("reason: %s", s.Reason)
		}
		if err := r.Liveness(); err != nil {
			t.Error(err)
		}
		r.q.setFault(nil)
		rest(5 * time.Second)
		if !r.Status().Claiming {
			t.Errorf("status: %+v", r.Status())
		}
		r.wantCleanEnd()
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.q.setFault(func(string) error { return errAway })
		r.start()
		rest(time.Minute)
		if err := r.end(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		mutate func(*Options)
		want   string
	}{
		{"the rig's options are valid", func(*Options) {}, ""},
		{"no backend", func(o *Options) { o.Backend = nil }, "backend"},
		{"a broken id", func(o *Options) { o.WorkerID = "a b" }, "worker.id"},
		{"no slots", func(o *Options) { o.MaxConcurrent = 0 }, "max_concurrent"},
		{"a TTL below two beats", func(o *Options) { o.HeartbeatTTL = o.HeartbeatInterval }, "heartbeat_timeout"},
		{"an unknown fence", func(o *Options) { o.Fence = "maybe" }, "worker.fence"},
		{"a priority as queue name", func(o *Options) { o.PlainQueues = []string{"high"} }, "worker.queues"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := Options{Backend: newFakeQueue(), Executors: newFakeHost(1), Spool: testSpool(t), WorkerID: "w", NodeID: "n", MaxConcurrent: 1,
				HeartbeatInterval: time.Second, StateDir: t.TempDir()}
			tt.mutate(&o)
			_, err := New(o)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("New: %v, want %q", err, tt.want)
			}
		})
	}
}

func TestStateFiles(t *testing.T) {
	t.Parallel()
	s := stateFiles{filepath.Join(t.TempDir(), "deep")}
	if s.generation() != 0 || s.unclean() {
		t.Error("an empty folder remembers something")
	}
	if err := s.registered(1796037562123); err != nil {
		t.Fatal(err)
	}
	if s.generation() != 1796037562123 || !s.unclean() {
		t.Errorf("generation %d", s.generation())
	}
	if err := os.WriteFile(s.generationPath(), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.generation() != 0 {
		t.Error("rubbish is a generation")
	}
	for range 2 {
		if err := s.deregistered(); err != nil || s.unclean() {
			t.Errorf("deregistered: %v", err)
		}
	}
}
