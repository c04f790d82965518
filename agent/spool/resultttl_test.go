package spool

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

// keptFor commits a file and returns how long it is kept.
func keptFor(ctx context.Context, t *testing.T, s *Spool, name string, opt CommitOptions) time.Duration {
	t.Helper()
	put(t, prepare(t, s, name), name, []byte(name))
	began := time.Now()
	records, err := s.Commit(ctx, name, 1, []executors.Artifact{{Name: name}}, opt)
	if err != nil {
		t.Fatal(err)
	}
	return records[0].ExpiresAt.Sub(began.Truncate(time.Second))
}

func TestNoArtifactGoesBeforeItsResult(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name    string
		ttl     time.Duration // artifacts.ttl
		setting time.Duration // failover.result_ttl
		opt     CommitOptions
		want    time.Duration // at least
	}{
		{"the setting for all results is longer than that for artifacts", time.Hour, 2 * day, CommitOptions{}, 2 * day},
		{"the setting is longer than what the task asks for", day, 2 * day, CommitOptions{TTL: time.Minute}, 2 * day},
		{"the task's own result lives longer than any artifact may ask", day, time.Hour, CommitOptions{AtLeast: 30 * day}, 30 * day},
		{"a result TTL that the queue does not take counts as none", day, 3 * day, CommitOptions{AtLeast: time.Millisecond}, 3 * day},
		{"nor one of centuries", day, 3 * day, CommitOptions{AtLeast: MaxResultTTL + day}, 3 * day},
		{"an artifact that lives longer anyway is left alone", 5 * day, time.Hour, CommitOptions{}, 5 * day},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSpool(t, func(c *Config) { c.TTL, c.ResultTTL = tt.ttl, tt.setting })
			if got := keptFor(t.Context(), t, s, "a", tt.opt); got < tt.want || got > tt.want+time.Hour {
				t.Errorf("kept for %v, want %v and little more", got, tt.want)
			}
		})
	}
	t.Run("the setting can change", func(t *testing.T) {
		t.Parallel()
		s := newSpool(t, func(c *Config) { c.TTL = time.Hour })
		s.SetResultTTL(6 * day)
		if got := keptFor(t.Context(), t, s, "a", CommitOptions{}); got < 6*day {
			t.Errorf("kept for %v", got)
		}
	})
	t.Run("the result may be written as late as the deadline", func(t *testing.T) {
		t.Parallel()
		s := newSpool(t, func(c *Config) { c.TTL = time.Hour })
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		if got := keptFor(ctx, t, s, "a", CommitOptions{AtLeast: day}); got < day+3*time.Hour-time.Minute {
			t.Errorf("kept for %v", got)
		}
	})
}

func TestTheControlPlaneIsToldHowLongTheResultLives(t *testing.T) {
	t.Parallel()
	k := startKeeper(t, nil)
	s := newSpool(t, func(c *Config) { c.Upload, c.TTL, c.ResultTTL = k.uploader(t, nil), time.Hour, 48*time.Hour })
	keptFor(t.Context(), t, s, "a", CommitOptions{})
	for _, key := range []string{"ttl_s", "result_ttl_s"} {
		if n, _ := strconv.Atoi(k.query.Get(key)); n < 48*3600 || n > 49*3600 {
			t.Errorf("%s = %q, want 48 hours", key, k.query.Get(key))
		}
	}
}

func TestUploadIsRepeatedWhereThePromiseEndsTooEarly(t *testing.T) {
	t.Parallel()
	k := startKeeper(t, nil)
	u := k.uploader(t, nil)
	content := []byte(strings.Repeat("x", 300<<10))
	for want := 1; want <= 2; want++ {
		if _, err := commitBy(t.Context(), t, u, content); err != nil || k.puts != want {
			t.Fatalf("sent %d times, %v; want %d", k.puts, err, want)
		}
		k.promised = time.Now() // the file is there for long, and may be removed at once
	}
	k.promised = time.Now().Add(time.Hour)
	if _, err := commitBy(t.Context(), t, u, content); err != nil || k.puts != 2 {
		t.Errorf("sent %d times, %v; want no third time", k.puts, err)
	}
}

func TestAFullStoreRefusesRatherThanBreaksItsPromise(t *testing.T) {
	t.Parallel()
	s := newSpool(t, func(c *Config) { c.Quotas.Store, c.ResultTTL = 25, time.Hour })
	a, b := commit(t, s, "a", strings.Repeat("a", 10), 0), commit(t, s, "b", strings.Repeat("b", 10), 0)
	put(t, prepare(t, s, "c"), "c", []byte(strings.Repeat("c", 10)))
	announced := []executors.Artifact{{Name: "c"}}
	_, err := s.Commit(t.Context(), "c", 1, announced, CommitOptions{})
	e := wantCode(t, err, executors.CodeResourceExhausted, "results may still name")
	if e.Hint == "" || e.Delay <= 0 {
		t.Errorf("no hint or no delay: %+v", e)
	}
	for _, r := range []Record{a, b} {
		if resp := request(s, "GET", r.URL, nil); resp.StatusCode != 200 {
			t.Errorf("%s: %s", r.Name, resp.Status)
		}
	}
	meta, err := s.store.read(a.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	meta.Promised = time.Now() // its result is gone
	if err := s.store.write(a.SHA256, meta); err != nil {
		t.Fatal(err)
	}
	put(t, prepare(t, s, "c"), "c", []byte(strings.Repeat("c", 10)))
	if _, err := s.Commit(t.Context(), "c", 1, announced, CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	if resp := request(s, "GET", a.URL, nil); resp.StatusCode != 404 {
		t.Errorf("%s: %s, want it to make room", a.Name, resp.Status)
	}
	if resp := request(s, "GET", b.URL, nil); resp.StatusCode != 200 {
		t.Errorf("%s: %s", b.Name, resp.Status)
	}
}
