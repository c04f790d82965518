package worker

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/autobot-fleet/autobot/executors"
)

// stuckLog is a log that takes nothing until it is let go.
type stuckLog struct {
	free chan struct{}
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *stuckLog) Write(p []byte) (int, error) {
	<-s.free
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *stuckLog) Sync() error { return nil }

func (s *stuckLog) logger() *zap.Logger {
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(s), zap.DebugLevel))
}

func TestALogThatStandsStillHoldsUpNeitherBeatsNorTheFence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &stuckLog{free: make(chan struct{})}
		r := newRig(t, 2, func(o *Options) { o.Log = log.logger() })
		var killed atomic.Int64
		r.h.run = func(_ context.Context, job Job, _ func(executors.Event)) (JobOutcome, error) {
			if job.Task.Attempt == 1 {
				<-r.h.dead("t1")
				killed.Store(time.Now().UnixNano())
			}
			return done(`{}`), nil
		}
		r.q.add("normal:general", "t1", "general")
		r.start()
		rest(10500 * time.Millisecond)
		if n := r.q.count("renew"); n < 9 {
			t.Errorf("%d heartbeats in 10 s", n)
		}
		sent := look(r, func() time.Time { return r.q.beatUntil.Add(-3 * time.Second) })
		back := r.cutOff()
		rest(4 * time.Second)
		if d := time.Unix(0, killed.Load()).Sub(sent); d != 2750*time.Millisecond {
			t.Errorf("killed %v after the last confirmed beat", d)
		}
		back()
		close(log.free)
		rest(5 * time.Second)
		r.wantCleanEnd()
		log.mu.Lock()
		defer log.mu.Unlock()
		for _, want := range []string{"registered", "stopping all work before the lease lapses", "deregistered"} {
			if !strings.Contains(log.text.String(), want) {
				t.Errorf("the log does not say %q in the end", want)
			}
		}
	})
}

func TestLinesBeyondTheBufferAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &stuckLog{free: make(chan struct{})}
		l, logger := newLines(log.logger())
		stop := l.start()
		for range maxLines + 100 {
			logger.Info("a line")
		}
		close(log.free)
		synctest.Wait()
		logger.Info("the last")
		stop()
		logger.Info("at once")
		text := log.text.String()
		if n := strings.Count(text, "a line"); n < maxLines || !strings.Contains(text, "left out") || !strings.HasSuffix(strings.TrimSpace(text), `"at once"}`) {
			t.Errorf("%d lines, ending in %q", n, text[max(0, len(text)-300):])
		}
	})
}
