package artifacts

import (
	"context"
	"sort"
	"time"

	"go.uber.org/zap"
)

// Run sweeps until ctx is done.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.SweepEvery)
	defer tick.Stop()
	for {
		s.Sweep()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Sweep removes expired files and returns how many they were.
func (s *Store) Sweep() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, now := 0, s.now()
	for sha, f := range s.files {
		if !now.Before(f.Expires) {
			s.drop(sha)
			n++
		}
	}
	if n > 0 {
		s.metrics.removed.WithLabelValues("expired").Add(float64(n))
		s.log.Info("expired artifacts removed", zap.Int("count", n), zap.Int64("bytes_left", s.used))
	}
	return n
}

// reserve makes sure that n more bytes fit under the quota and on the disk
// and holds the place until release is called.
func (s *Store) reserve(n int64) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.makeRoom(n); err != nil {
		s.metrics.refused.Inc()
		return nil, err
	}
	s.reserved += n
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reserved -= n
	}, nil
}

// makeRoom removes expired files, then those that no result names any more,
// the least recently used first, until n bytes fit. The caller holds mu.
func (s *Store) makeRoom(n int64) error {
	short := s.shortage(n)
	if short == 0 {
		return nil
	}
	for _, f := range s.removable() {
		s.drop(f.SHA256)
		s.metrics.removed.WithLabelValues("quota").Inc()
		if short = s.shortage(n); short == 0 {
			return nil
		}
	}
	if over := s.used + s.reserved + n - s.cfg.QuotaBytes; over > 0 {
		return exhausted("the artifact store holds %d of %d bytes and cannot take %d more; results may still name what is there (raise artifacts.quota_bytes, or keep results for less time: failover.result_ttl)",
			s.used+s.reserved, s.cfg.QuotaBytes, n)
	}
	return exhausted("%d bytes are missing on the disk of the artifact store for a file of %d bytes with %d to stay free (free some space, or move artifacts.dir)",
		short, n, s.cfg.FreeMin)
}

// shortage is how many bytes are missing before n more can be stored.
func (s *Store) shortage(n int64) int64 {
	missing := s.used + s.reserved + n - s.cfg.QuotaBytes
	if s.cfg.FreeMin >= 0 {
		if free, err := s.free(s.cfg.Dir); err == nil { // unknown: writing will tell
			missing = max(missing, s.cfg.FreeMin+s.reserved+n-free)
		}
	}
	return max(missing, 0)
}

// removable lists what may go before its expiry or is past it: expired files
// first, then the least recently used.
func (s *Store) removable() []*file {
	now := s.now()
	var out []*file
	for _, f := range s.files {
		if !now.Before(f.Expires) || !now.Before(f.promised()) {
			out = append(out, f)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if ax, bx := !now.Before(a.Expires), !now.Before(b.Expires); ax != bx {
			return ax
		}
		return a.lastUse.Before(b.lastUse)
	})
	return out
}
