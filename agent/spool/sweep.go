package spool

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
)

// sweepEvery is how often expired artifacts are looked for.
const sweepEvery = time.Minute

// Run sweeps the local store once a minute until ctx is done.
func (s *Spool) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if _, err := s.Sweep(); err != nil {
			s.log.Warn("could not sweep the artifact store; will try again", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Sweep removes expired artifacts from the local store, then the least
// recently used ones that no result names any more, until the store is within
// its quota. It returns how many it removed.
func (s *Spool) Sweep() (removed int, err error) { return s.store.sweep(time.Now()) }

type stored struct {
	sum      string
	bytes    int64
	used     time.Time
	expires  time.Time
	promised time.Time
}

func (s *store) sweep(now time.Time) (removed int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tidy(now, s.quota)
}

// tidy is sweep down to a size. The caller holds mu.
func (s *store) tidy(now time.Time, size int64) (removed int, err error) {
	items, err := s.list()
	if err != nil {
		return 0, err
	}
	var total int64
	kept := items[:0]
	for _, it := range items {
		if now.After(it.expires) {
			err = errors.Join(err, s.remove(it.sum))
			removed++
			continue
		}
		total += it.bytes
		kept = append(kept, it)
	}
	slices.SortFunc(kept, func(a, b stored) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.sum, b.sum)) })
	for _, it := range kept {
		if total <= size {
			break
		}
		if now.Before(it.promised) {
			continue
		}
		err = errors.Join(err, s.remove(it.sum))
		total -= it.bytes
		removed++
		s.log.Warn("artifact removed before its time: the store is over artifacts.store_mb",
			zap.String("sha256", it.sum), zap.String("expires_at", it.expires.UTC().Format(time.RFC3339)))
	}
	s.used = total
	return removed, err
}

// list walks the store. Content without a sidecar, and a sidecar without
// content, are what a crash left: they expire an hour after their last change.
func (s *store) list() ([]stored, error) {
	found := map[string]*stored{}
	whole := map[string]int{}
	err := filepath.WalkDir(filepath.Join(s.dir, "sha256"), func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		sum, isMeta := strings.CutSuffix(d.Name(), ".json")
		if !hexDigest.MatchString(sum) {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		it := found[sum]
		if it == nil {
			it = &stored{sum: sum}
			found[sum] = it
		}
		whole[sum]++
		if !isMeta {
			it.bytes = info.Size()
			if it.used.IsZero() {
				it.used = info.ModTime()
			}
			return nil
		}
		it.used = info.ModTime()
		if meta, err := s.read(sum); err == nil {
			it.expires, it.promised = meta.Expires, meta.Promised
		}
		return nil
	})
	items := make([]stored, 0, len(found))
	for sum, it := range found {
		if it.expires.IsZero() || whole[sum] < 2 {
			it.expires = it.used.Add(time.Hour)
		}
		items = append(items, *it)
	}
	return items, err
}

func (s *store) remove(sum string) error {
	var errs error
	for _, name := range []string{s.path(sum), s.path(sum) + ".json"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}
