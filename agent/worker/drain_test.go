package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/queue"
)

func TestDrainLetsRunningTasksEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.h.run = forTime(10 * time.Second)
		r.q.add("normal:general", "t1", "general")
		r.q.add("normal:general", "t2", "general")
		r.start()
		rest(time.Second)
		r.stop()
		rest(5 * time.Second)
		var beat struct {
			Status string `json:"status"`
			Tasks  int    `json:"tasks_active"`
		}
		last := look(r, func() json.RawMessage { return r.q.lastBeat })
		if err := json.Unmarshal(last, &beat); err != nil || beat.Status != "draining" || beat.Tasks != 1 {
			t.Errorf("heartbeat while draining: %s", last)
		}
		if look(r, func() bool { return time.Now().After(r.q.beatUntil) }) {
			t.Error("the heartbeat lapsed during the drain")
		}
		r.wantCleanEnd()
		r.wantStatus("t1", queue.StatusCompleted)
		if task := r.wantStatus("t2", queue.StatusQueued); task.starts != 0 {
			t.Error("a task was started during the drain")
		}
	})
}

func TestDrainHandsBackWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		twice   bool
		limit   time.Duration
		atMost  time.Duration
		blocked time.Duration // pops arrive so late
	}{
		{"after the limit", false, 4 * time.Second, 5 * time.Second, 0},
		{"at once when asked to", true, time.Hour, time.Second, 0},
		{"a limit of zero hands back at once", false, 0, time.Second, 0},
		{"after a pop that was under way", true, time.Hour, 2 * time.Second, 800 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 2, func(o *Options) { o.DrainTimeout = tt.limit })
				r.q.lateBlock = tt.blocked
				r.h.run = untilCancelled
				r.q.add("normal:general", "t1", "general")
				r.start()
				rest(2100 * time.Millisecond)
				began := time.Now()
				r.stop()
				if tt.twice {
					r.HandBack()
				}
				r.wantCleanEnd()
				if took := time.Since(began); took > tt.atMost {
					t.Errorf("took %v", took)
				}
				task := r.wantStatus("t1", queue.StatusQueued)
				if task.starts != 1 || task.RetryCount != 0 || !slices.Equal(r.q.lists["normal:general"], []string{"t1"}) || len(r.q.processing["normal:general"]) != 0 {
					t.Errorf("t1 was not handed back cleanly: %+v, %v", task.Task, r.q.lists)
				}
			})
		})
	}
}

func TestDrainKillsWhatDoesNotStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, func(o *Options) { o.DrainTimeout = time.Second })
		r.h.run = func(_ context.Context, job Job, _ func(executors.Event)) (JobOutcome, error) {
			<-r.h.dead(job.Task.ID)
			return JobOutcome{}, errors.New("killed")
		}
		r.q.add("normal:general", "t1", "general")
		r.start()
		rest(time.Second)
		r.wantCleanEnd()
		if !slices.Contains(r.h.killed, "t1") {
			t.Error("the executor was not killed")
		}
		r.wantStatus("t1", queue.StatusQueued)
		r.wantNoProblems()
	})
}

func TestAnOutageDelaysOutcomesAndFailsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, func(o *Options) { o.HeartbeatTTL = 30 * time.Second })
		r.h.run = forTime(2 * time.Second)
		r.q.add("normal:general", "t1", "general")
		r.start()
		rest(time.Second)
		r.q.setFault(func(string) error { return errAway })
		rest(10 * time.Second)
		if s := r.Status(); s.Claiming || !strings.Contains(s.Reason, "does not serve since") || s.QueueAwaySince.IsZero() {
			t.Errorf("status during the outage: %+v", s)
		}
		if err := r.Liveness(); err != nil {
			t.Errorf("an outage is no hang: %v", err)
		}
		r.q.setFault(nil)
		rest(2 * time.Second)
		if task := r.wantStatus("t1", queue.StatusCompleted); task.starts != 1 {
			t.Errorf("t1 started %d times", task.starts)
		}
		r.q.add("normal:general", "t2", "general")
		rest(3 * time.Second)
		r.wantStatus("t2", queue.StatusCompleted)
		r.wantCleanEnd()
		r.wantNoProblems()
	})
}

// One loop that finds the server back wakes the others: nobody sits out the
// back-off of a long outage.
func TestWorkIsTakenUpSoonAfterAnOutage(t *testing.T) {
	t.Parallel()
	seed := func(o *Options) {
		o.HeartbeatInterval, o.HeartbeatTTL, o.MaxBackoff = 15*time.Second, 45*time.Second, 2*time.Second
	}
	fast := func(*Options) {}
	for _, tt := range []struct {
		name    string
		profile func(*Options)
		away    time.Duration
	}{
		{"fast", fast, 2 * time.Second},
		{"fast, the lease has lapsed", fast, 10 * time.Second},
		{"seed", seed, 10 * time.Second},
		{"seed, the lease has lapsed", seed, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 1, tt.profile)
				r.start()
				rest(20 * time.Second)
				for i := range 20 { // the back-off is random
					// It is back for a moment, long enough for a heartbeat alone.
					r.q.setFault(func(string) error { return errAway })
					rest(time.Second)
					r.q.setFault(func(op string) error {
						if op == "renew" || op == "register" {
							return nil
						}
						return errAway
					})
					rest(time.Second)
					r.q.setFault(func(string) error { return errAway })
					rest(tt.away)
					r.q.setFault(nil)
					id := fmt.Sprintf("t%d", i)
					r.q.add("normal:general", id, "general")
					rest(600 * time.Millisecond)
					r.wantStatus(id, queue.StatusCompleted)
				}
				r.wantCleanEnd()
				r.wantNoProblems()
			})
		})
	}
}

func TestAReplyThatWasLostIsAskedForAgain(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"finish", "fail", "claim", "adopt", "register", "renew", "release"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 1)
				var lost atomic.Int32
				r.q.after = func(o string) error {
					if o == op && lost.Add(1) <= 3 {
						return errAway
					}
					return nil
				}
				r.h.run = func(_ context.Context, job Job, _ func(executors.Event)) (JobOutcome, error) {
					if job.Task.ID == "bad" {
						return JobOutcome{}, executors.Errorf(executors.CodeNotFound, "nothing there")
					}
					return done(`{}`), nil
				}
				r.q.add("normal:general", "good", "general")
				r.q.add("normal:general", "bad", "general")
				r.start()
				rest(time.Second)
				r.q.add("normal:general", "later", "general")
				rest(20 * time.Second)
				r.wantStatus("good", queue.StatusCompleted)
				r.wantStatus("later", queue.StatusCompleted)
				r.wantStatus("bad", queue.StatusFailedPermanent)
				if err := r.end(); err != nil {
					t.Error(err)
				}
				r.wantNoProblems()
			})
		})
	}
}

func TestUndeliveredOutcomesAreNamedAtExit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, func(o *Options) { o.DrainTimeout = 5 * time.Second })
		r.h.run = forTime(time.Second)
		r.q.add("normal:general", "t1", "general")
		r.start()
		rest(500 * time.Millisecond)
		r.q.setFault(func(string) error { return errAway })
		began := time.Now()
		err := r.end()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v, the limit is 5s", took)
		}
		var undelivered *UndeliveredError
		if !errors.As(err, &undelivered) || !slices.Equal(undelivered.IDs, []string{"t1"}) {
			t.Errorf("Run returned %v", err)
		}
		if !r.files.unclean() {
			t.Error("the next start will not know that this was no clean stop")
		}
	})
}

// What runs during an outage is stopped in time, whether it obeys or not.
func TestADrainDuringAnOutageIsOverAtItsLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		limit time.Duration
		twice bool
		deaf  bool
		most  time.Duration
	}{
		{"tasks that obey", 4 * time.Second, false, false, 4 * time.Second},
		{"tasks that are deaf", 4 * time.Second, false, true, 4 * time.Second},
		{"a long limit", 40 * time.Second, false, true, 40 * time.Second},
		{"no time at all", 0, false, false, time.Second},
		{"asked twice", time.Hour, true, false, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 1, func(o *Options) {
					o.DrainTimeout, o.HeartbeatInterval, o.HeartbeatTTL = tt.limit, 15*time.Second, 2*time.Minute
				})
				r.h.run = untilCancelled
				if tt.deaf {
					r.h.run = func(_ context.Context, job Job, _ func(executors.Event)) (JobOutcome, error) {
						<-r.h.dead(job.Task.ID)
						return JobOutcome{}, errors.New("killed")
					}
				}
				r.q.add("normal:general", "t1", "general")
				r.start()
				rest(time.Second)
				r.q.setFault(func(string) error { return errAway })
				rest(20 * time.Second)
				began := time.Now()
				r.stop()
				if tt.twice {
					r.HandBack()
				}
				err := r.end()
				if took := time.Since(began); took > tt.most {
					t.Errorf("it took %v, want at most %v", took, tt.most)
				}
				var undelivered *UndeliveredError
				if !errors.As(err, &undelivered) || !slices.Equal(undelivered.IDs, []string{"t1"}) {
					t.Errorf("Run returned %v", err)
				}
			})
		})
	}
}

func TestASlowStopWithoutTasksIsClean(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.start()
		rest(time.Second)
		r.q.setFault(func(string) error { return errAway })
		rest(time.Second)
		if err := r.end(); err != nil {
			t.Errorf("nothing was undelivered: %v", err)
		}
	})
}
