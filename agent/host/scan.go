package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/executors"
)

// sighting is what was last seen of an executor's files.
type sighting struct {
	mark  string
	since time.Time // it has looked like this since then
}

// candidate is a file that looks like an executor.
type candidate struct {
	name string
	path string
	mark string // changes with the file or its manifest
	age  time.Duration
}

// scan looks into the folders and starts, replaces and drains executors
// accordingly. It reports whether some file is still being changed. Only Run
// calls it.
func (h *Host) scan() (unsettled bool) {
	h.watcher.renew()
	found := map[string]bool{} // by path
	named := map[string]string{}
	list, unreadable := h.candidates()
	for _, c := range list {
		found[c.path] = true
		if first, taken := named[c.name]; taken {
			h.refuse(c, executors.Manifest{}, StateQuarantined, fmt.Errorf("the executor of the same name in %s is used", filepath.Dir(first)))
			continue
		}
		named[c.name] = c.path
		if !h.settled(c) {
			unsettled = true
			continue
		}
		h.consider(c)
	}
	if h.dropMissing(found, unreadable) {
		unsettled = true
	}
	h.sweepStore(h.copiesInUse())
	return unsettled
}

// candidates lists the files in the folders that are called like executors,
// and the folders that could not be read, of which nothing is known.
func (h *Host) candidates() (list []candidate, unreadable map[string]bool) {
	unreadable = map[string]bool{}
	for _, dir := range h.cfg.Dirs {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // may appear later
		}
		if err != nil {
			unreadable[dir] = true
			h.log.Debug("executor folder cannot be read", zap.String("path", dir), zap.Error(err))
			continue
		}
		for _, e := range entries {
			name, ok := strings.CutPrefix(e.Name(), prefix)
			// Names with a dot are manifests, signatures, and what package
			// managers and copies in progress leave: .tmp, .dpkg-new, .rpmnew.
			if !ok || strings.Contains(name, ".") || e.IsDir() {
				continue
			}
			name = strings.ToValidUTF8(name, "?")
			path := filepath.Join(dir, e.Name())
			mark, changed := fileMark(path)
			more, manifestChanged := fileMark(path + ".json")
			if manifestChanged.After(changed) {
				changed = manifestChanged
			}
			list = append(list, candidate{name: name, path: path, mark: mark + "+" + more, age: time.Since(changed)})
		}
	}
	return list, unreadable
}

// fileMark changes whenever a file does; changed is when it last did.
func fileMark(path string) (mark string, changed time.Time) {
	info, err := os.Lstat(path)
	if err != nil {
		return "none", time.Time{}
	}
	mark = fmt.Sprintf("%d:%d:%s", info.Size(), info.ModTime().UnixNano(), info.Mode())
	changed = info.ModTime()
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		mark += fmt.Sprintf(":%d:%d:%d:%d", st.Ino, st.Uid, st.Gid, st.Ctim.Nano())
		changed = time.Unix(st.Ctim.Unix())
	}
	return mark, changed
}

// settled reports whether the files have not changed for a while.
func (h *Host) settled(c candidate) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	s := h.seen[c.path]
	if s.mark != c.mark {
		s = sighting{mark: c.mark, since: now}
		h.seen[c.path] = s
	}
	return c.age >= h.cfg.Settle || now.Sub(s.since) >= h.cfg.Settle
}

// consider starts the executor if it is new or has changed, and may be.
func (h *Host) consider(c candidate) {
	h.mu.Lock()
	raw := h.settings[c.name]
	current := h.current(c.name)
	old, wasRefused := h.refused[c.path]
	h.mu.Unlock()

	set, err := readSettings(c.name, raw)
	mark := c.mark + "+" + set.print
	switch {
	case err == nil && current != nil && current.mark == mark:
		return
	case !executorName.MatchString(c.name):
		err = fmt.Errorf("%q cannot be the name of an executor: 1 to 64 characters of a-z 0-9 _ -", c.name)
	case err == nil && set.disabled:
		h.refuseMarked(c, mark, executors.Manifest{}, StateDisabled, fmt.Errorf("switched off by executors.%s.enabled", c.name))
		return
	case wasRefused && old.mark == mark && strings.Contains(old.reason, "sha256"):
		return // reading it all again would not change that
	}
	var p program
	if err == nil {
		p, err = h.load(c.name, c.path)
	}
	if err != nil {
		h.refuseMarked(c, mark, p.manifest, StateQuarantined, err)
		return
	}
	h.mu.Lock()
	delete(h.refused, c.path)
	h.mu.Unlock()
	if current != nil && current.exe == p.exe && current.set.print == set.print {
		h.mu.Lock()
		current.mark, current.path = mark, p.path // touched, or moved: the same in substance
		h.mu.Unlock()
		return
	}
	h.startUnit(p, set, mark)
}

// current is the unit that is to serve a name, which may have just started
// beside the one that serves it still. The lock must be held.
func (h *Host) current(name string) *unit {
	for i := len(h.units) - 1; i >= 0; i-- {
		if u := h.units[i]; u.name == name && !u.draining {
			return u
		}
	}
	return nil
}

func (h *Host) refuse(c candidate, m executors.Manifest, state string, why error) {
	h.refuseMarked(c, c.mark, m, state, why)
}

// refuseMarked notes why a file is not run, and drains what ran of that name:
// what cannot be trusted any more is not advertised any more.
func (h *Host) refuseMarked(c candidate, mark string, m executors.Manifest, state string, why error) {
	r := refusal{name: c.name, version: m.Version, types: m.Types, state: state, reason: why.Error(), mark: mark}
	h.mu.Lock()
	old, had := h.refused[c.path]
	h.refused[c.path] = r
	if !had || old.reason != r.reason {
		h.notify()
		if state == StateQuarantined {
			h.log.Warn("executor quarantined", zap.String("executor", c.name), zap.String("path", c.path), zap.Error(why))
		} else {
			h.log.Info("executor not started", zap.String("executor", c.name), zap.Error(why))
		}
	}
	var drop []*unit
	for _, u := range h.units {
		if u.path == c.path && !u.draining {
			drop = append(drop, u)
		}
	}
	h.mu.Unlock()
	for _, u := range drop {
		u.drain("its file was refused")
	}
}

// dropMissing drains units whose file is gone, once it has been gone for a
// moment: package managers remove before they install. It reports whether one
// is being waited for.
func (h *Host) dropMissing(found, unreadable map[string]bool) (waiting bool) {
	var drop []*unit
	there := func(path string) bool { return found[path] || unreadable[filepath.Dir(path)] }
	h.mu.Lock()
	for path := range h.refused {
		if !there(path) {
			delete(h.refused, path)
			h.notify()
		}
	}
	for path, s := range h.seen {
		if there(path) {
			continue
		}
		if s.mark != "gone" {
			h.seen[path] = sighting{mark: "gone", since: time.Now()}
			waiting = true
			continue
		}
		if time.Since(s.since) < h.cfg.Settle {
			waiting = true
			continue
		}
		delete(h.seen, path)
		for _, u := range h.units {
			if u.path == path && !u.draining {
				drop = append(drop, u)
			}
		}
	}
	h.mu.Unlock()
	for _, u := range drop {
		u.drain("its file is gone")
	}
	return waiting
}

func (h *Host) copiesInUse() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	used := map[string]bool{}
	for _, u := range h.units {
		used[u.exe] = true
	}
	return used
}
