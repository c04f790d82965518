package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/executors"
)

// maxSocketDir is the longest path that still leaves room for the names that
// are appended to it before a socket path is full.
const maxSocketDir = 60

// Host owns the executor processes of an agent. Run does the work; all other
// methods may be called at any time from many goroutines.
type Host struct {
	cfg     Config
	log     *zap.Logger
	sockets string // folder for sockets
	bootID  string
	lease   *executors.Lease
	cgroups string // folder in which each process gets a cgroup; empty: none does
	kills   kills

	probed  chan struct{}
	changed chan struct{}
	rescan  chan struct{}
	watcher *dirWatcher // Run's own

	mu       sync.Mutex
	settings map[string]map[string]any
	units    []*unit            // the current one of each name, and those that drain
	refused  map[string]refusal // by path
	crashes  map[string]int     // by name, since the start
	seen     map[string]sighting
	wake     chan struct{} // closed and replaced when a place may have become free
	former   []record      // processes of a former run
	seq      int           // numbers process directories
	running  bool
	stopped  bool
}

// refusal says why a file is not run.
type refusal struct {
	name    string
	version string
	types   []string
	state   string
	reason  string
	mark    string // of the files it is about
}

// New checks the configuration and makes the directories. It starts nothing.
// reg may be nil.
func New(cfg Config, log *zap.Logger, reg prometheus.Registerer) (*Host, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = zap.NewNop()
	}
	h := &Host{
		cfg: cfg, log: log.Named("executors"),
		probed: make(chan struct{}), changed: make(chan struct{}, 1), rescan: make(chan struct{}, 1),
		settings: cfg.Settings, refused: map[string]refusal{}, crashes: map[string]int{},
		seen: map[string]sighting{}, wake: make(chan struct{}), kills: kills{runs: map[*run]struct{}{}},
	}
	for _, dir := range []string{h.storeDir(), h.runDir(), h.recordDir(), h.homeDir("")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the directories for executors: %w", err)
		}
	}
	if h.sockets, err = socketDir(cfg.RuntimeDir, cfg.StateDir, systemRuntimeDirs()...); err != nil {
		return nil, err
	}
	if h.bootID, err = readBootID(); err != nil {
		return nil, err
	}
	if h.lease, err = executors.NewLease(); err != nil {
		return nil, err
	}
	if h.cgroups, err = findCgroup(); err != nil {
		h.log.Info("executors get no cgroup of their own: what one starts dies with it unless it leaves the process group and clears its environment", zap.Error(err))
	} else if err := sweepCgroups(h.cgroups); err != nil {
		h.log.Warn("processes of executors of a former agent are left", zap.Error(err))
	}
	if err := h.takeRecords(); err != nil {
		return nil, err
	}
	if reg != nil {
		if err := reg.Register(newCollector(h)); err != nil {
			return nil, fmt.Errorf("register the metrics of executors: %w", err)
		}
	}
	return h, nil
}

func (h *Host) runDir() string    { return filepath.Join(h.cfg.StateDir, "executors", "run") }
func (h *Host) recordDir() string { return filepath.Join(h.cfg.StateDir, "executors", "pids") }
func (h *Host) homeDir(name string) string {
	return filepath.Join(h.cfg.StateDir, "executors", "home", name)
}

// socketDir returns a private folder for sockets: below the runtime directory,
// or, where that path is too long, below the first of the others that exists.
func socketDir(runtimeDir, stateDir string, others ...string) (string, error) {
	dir := filepath.Join(runtimeDir, "p")
	if len(dir) <= maxSocketDir {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("make the folder for the sockets of executors: %w", err)
		}
		return dir, nil
	}
	sum := sha256.Sum256([]byte(stateDir))
	for _, other := range others {
		short := filepath.Join(other, "autobot-"+hex.EncodeToString(sum[:4]))
		if !filepath.IsAbs(other) || len(short) > maxSocketDir {
			continue
		}
		if err := os.Mkdir(short, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			continue
		}
		if err := checkPath(short); err == nil {
			return short, nil
		}
	}
	return "", fmt.Errorf("%s has %d bytes, too many for a folder with sockets, which may have %d (choose a shorter state_dir or RUNTIME_DIRECTORY)",
		dir, len(dir), maxSocketDir)
}

// systemRuntimeDirs are where a user has a runtime directory from the system.
func systemRuntimeDirs() []string {
	return []string{os.Getenv("XDG_RUNTIME_DIR"), "/run/user/" + strconv.Itoa(os.Getuid()), "/run"}
}

// Probed is closed when every executor found at the start of Run has either
// become ready or been found wanting.
func (h *Host) Probed() <-chan struct{} { return h.probed }

// Changed receives when Status has changed since it was last received from.
func (h *Host) Changed() <-chan struct{} { return h.changed }

// Reload takes new executors.<name>.* settings. An executor whose settings
// changed is started anew with them; the former processes finish what they
// have.
func (h *Host) Reload(settings map[string]map[string]any) {
	h.mu.Lock()
	h.settings = settings
	h.mu.Unlock()
	h.lookAgain()
}

func (h *Host) lookAgain() {
	select {
	case h.rescan <- struct{}{}:
	default:
	}
}

// notify tells whoever waits for a change of Status or for a free place. The
// lock must be held.
func (h *Host) notify() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
	h.free()
}

// free wakes those who wait for a free place. The lock must be held.
func (h *Host) free() {
	close(h.wake)
	h.wake = make(chan struct{})
}

// Run finds, starts and supervises executors until ctx is done, then shuts all
// processes down and returns when the last one is gone. It may be called once.
func (h *Host) Run(ctx context.Context) error {
	h.mu.Lock()
	if h.running {
		h.mu.Unlock()
		return errors.New("the executor host runs already")
	}
	h.running = true
	h.mu.Unlock()
	// Crashed processes leave their sockets, a killed agent everything.
	if err := errors.Join(emptyDir(h.runDir()), emptyDir(h.sockets)); err != nil {
		return fmt.Errorf("sweep what a former run left: %w", err)
	}
	h.watcher = newDirWatcher(h.cfg.Dirs, h.log)
	defer h.watcher.close()
	var probing sync.WaitGroup
	defer probing.Wait()
	defer h.stop()

	started := time.Now()
	first, soon := true, false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.watcher.events():
			if !soon { // else a busy folder would put it off for ever
				soon = true
				timer.Reset(min(100*time.Millisecond, h.cfg.Settle))
			}
			continue
		case <-h.rescan:
		case <-timer.C:
		}
		unsettled := h.scan()
		next := h.cfg.PollInterval
		if unsettled {
			next = max(h.cfg.Settle/4, 10*time.Millisecond)
		}
		soon = unsettled
		timer.Reset(next)
		if first && (!unsettled || time.Since(started) > h.cfg.ProbeTimeout/2) {
			first = false
			probing.Go(func() { h.awaitProbes(ctx, h.cfg.ProbeTimeout-time.Since(started)) })
		}
	}
}

// awaitProbes closes Probed when every unit there is has been judged. One that
// hangs does not hold up the others for longer than limit.
func (h *Host) awaitProbes(ctx context.Context, limit time.Duration) {
	defer close(h.probed)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	h.mu.Lock()
	units := append([]*unit(nil), h.units...)
	h.mu.Unlock()
	for _, u := range units {
		select {
		case <-u.probed:
		case <-u.gone:
		case <-timer.C:
			h.log.Warn("an executor takes long to answer; going on without it", zap.String("executor", u.name))
			return
		case <-ctx.Done():
			return
		}
	}
}

// stop ends all units and waits for them.
func (h *Host) stop() {
	h.mu.Lock()
	h.stopped = true
	units := append([]*unit(nil), h.units...)
	h.free()
	h.mu.Unlock()
	for _, u := range units {
		u.end()
	}
	for _, u := range units {
		<-u.gone
	}
	_ = os.Remove(h.sockets) // empty now
}

// emptyDir removes what is in a directory.
func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}
