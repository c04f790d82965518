package openvino

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
)

// A want says which model is needed, and how.
type want struct {
	card      engines.Card
	digest    string // of the card
	dir       string
	file      string // of the card, to load
	device    string // as asked: "" or AUTO, or an explicit one
	precision string
	open      bool // the input is of a size that devices with fixed ones do not take
	length    int  // tokens of the only sequence that a device without open dimensions is compiled for, 0: as the model is
}

// path is where the file of a model is.
func (w want) path() string { return filepath.Join(w.dir, w.file) }

// digestOf stands for all that a card says, the checksums of all files with
// it: a model that was replaced or described anew has another one.
func digestOf(card engines.Card) (string, error) {
	raw, err := json.Marshal(card)
	if err != nil {
		return "", fmt.Errorf("encode the card of model %s: %w", card.Name, err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// key tells loaded models apart.
type key struct {
	name, file, digest, device, precision string
	length                                int
}

// same reports whether two keys differ in the content of the model only.
func (k key) same(other key) bool {
	other.digest = k.digest
	return k == other
}

// model is a loaded model. It stays while it has users.
type model struct {
	key       key
	card      engines.Card
	compiled  *ov.Compiled
	requests  chan *ov.Request
	device    string // read back from the runtime
	bytes     int64  // estimate
	took      time.Duration
	warnings  []executors.Warning // about the loading
	batcher   *batcher            // only of task embed, from first use
	batchOnce sync.Once

	users int // with models.mu
	last  time.Time
	gone  bool
}

// entry is a model that is loaded or being loaded.
type entry struct {
	ready   chan struct{} // closed when model or err is set
	model   *model
	err     error
	bytes   int64
	overdue time.Time // nobody waits for it beyond this
	waiting int       // who will be the first users, with models.mu
}

// models loads models on demand and keeps those used last.
type models struct {
	rt       *ov.Runtime
	devices  *devices
	cache    *cache
	settings Settings

	life  context.Context // ends the loads
	stop  context.CancelFunc
	loads sync.WaitGroup // what may add models
	wg    sync.WaitGroup // what frees them

	mu      sync.Mutex
	loaded  map[key]*entry
	leaving int64 // bytes of models that were dropped while they had users
	closed  bool
}

func newModels(rt *ov.Runtime, s Settings, cacheDir string) *models {
	m := &models{
		rt: rt, settings: s, devices: newDevices(rt, s.Devices, s.Cooldown), cache: newCache(cacheDir, s.CacheMB<<20),
		loaded: map[key]*entry{},
	}
	m.life, m.stop = context.WithCancel(context.Background())
	if s.IdleUnload > 0 {
		m.loads.Go(m.janitor)
	}
	return m
}

// lease is a loaded model in use. Release it once.
type lease struct {
	*model
	owner    *models
	warnings []executors.Warning
	load     time.Duration // that the caller waited
	once     sync.Once
}

func (l *lease) release() { l.once.Do(func() { l.owner.leave(l.model) }) }

// leave takes one user away; the last one of a dropped model frees it.
func (m *models) leave(x *model) {
	m.mu.Lock()
	x.users--
	x.last = time.Now()
	free := x.gone && x.users == 0
	m.mu.Unlock()
	if !free {
		return
	}
	x.close()
	m.mu.Lock()
	m.leaving -= x.bytes
	m.mu.Unlock()
}

// acquire returns the model on a device that w allows. progress is told while
// it waits.
func (m *models) acquire(ctx context.Context, w want, progress func(executors.Progress)) (*lease, error) {
	began := time.Now()
	if w.file == "" {
		w.file = w.card.Model
	}
	choices, err := m.devices.choose(w.device, w.subject())
	if err != nil {
		return nil, err
	}
	var failed []executors.Warning
	for i, c := range choices {
		if w.open && !dynamic(c.device) && c.auto && i < len(choices)-1 {
			failed = append(failed, fallback(c.device+" takes only inputs of the card's static_shapes", choices[i+1].device))
			continue
		}
		k := key{name: w.card.Name, file: w.file, digest: w.digest, device: c.device, precision: w.precision}
		if !dynamic(c.device) {
			k.length = w.length
		}
		loaded, err := m.get(ctx, k, w, progress)
		if err == nil {
			l := &lease{model: loaded, owner: m, load: time.Since(began)}
			l.warnings = append(append(append(l.warnings, failed...), c.warnings...), loaded.warnings...)
			return l, nil
		}
		if ctx.Err() != nil || !c.auto || i == len(choices)-1 {
			return nil, err
		}
		failed = append(failed, fallback(fmt.Sprintf("%s did not load the model (%s)", c.device, executors.AsError(err).Message), choices[i+1].device))
	}
	return nil, errors.New("no device was tried") // choose returns at least one
}

// subject is what a device is trusted with or not: one file of a model.
func (w want) subject() string { return w.digest + "/" + w.file }

// dynamic reports whether a device runs models with open dimensions.
func dynamic(device string) bool { return kind(device) != "NPU" }

func fileSum(card engines.Card, name string) string {
	for _, f := range card.Files {
		if f.Name == name {
			return f.SHA256
		}
	}
	return ""
}

// get returns the loaded model, with one user more. Whoever asks while it is
// being loaded waits for that loading, which does not end with the one who
// asked first.
func (m *models) get(ctx context.Context, k key, w want, progress func(executors.Progress)) (*model, error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, executors.Errorf(executors.CodeEngineUnavailable, "the executor is closing")
	}
	e, ok := m.loaded[k]
	if ok && e.model != nil {
		defer m.mu.Unlock()
		e.model.users++
		return e.model, nil
	}
	if !ok {
		var err error
		if e, err = m.start(k, w); err != nil {
			m.mu.Unlock()
			return nil, err
		}
	}
	e.waiting++
	m.mu.Unlock()

	err := m.wait(ctx, e, k, progress)
	m.mu.Lock()
	if e.model == nil && e.err == nil { // still being loaded
		e.waiting--
		m.mu.Unlock()
		return nil, err
	}
	m.mu.Unlock()
	switch {
	case e.err != nil:
		return nil, e.err
	case ctx.Err() != nil:
		m.leave(e.model) // of which it has become a user
		return nil, ctx.Err()
	}
	return e.model, nil
}

// How often a task hears that its model is still being loaded.
const tellEvery = 2 * time.Second

// wait returns when the model is there or failed, when ctx ends, or when it has
// taken longer than it may.
func (m *models) wait(ctx context.Context, e *entry, k key, progress func(executors.Progress)) error {
	progress(executors.Progress{Percent: 1, Stage: "load"})
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	late := time.NewTimer(time.Until(e.overdue))
	defer late.Stop()
	for began := time.Now(); ; {
		select {
		case <-e.ready:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			err := executors.Errorf(executors.CodeDeadlineExceeded, "model %s was not loaded for %s within %s; it is still being compiled", k.name, k.device, m.settings.LoadTimeout)
			err.Hint = "raise executors.openvino.load_timeout"
			return err
		case now := <-tick.C:
			progress(executors.Progress{Percent: 1, Stage: "compile",
				Message: fmt.Sprintf("model %s is being compiled for %s, %d s so far", k.name, k.device, int(now.Sub(began).Seconds()))})
		}
	}
}

// start begins to load a model, after room was made for it. The library cannot
// be interrupted, so a slow loading goes on when nobody waits any more: there
// is never a second one beside it, and its result is used. Call with mu held.
func (m *models) start(k key, w want) (*entry, error) {
	m.supersede(k)
	need := estimate(w.card, k.file)
	if err := m.makeRoom(need, k.name); err != nil {
		return nil, err
	}
	e := &entry{ready: make(chan struct{}), bytes: need, overdue: time.Now().Add(m.settings.LoadTimeout)}
	m.loaded[k] = e
	m.loads.Go(func() {
		loaded, err := m.load(m.life, k, w)
		m.mu.Lock()
		defer m.mu.Unlock()
		if err != nil {
			e.err = err
			delete(m.loaded, k) // the next task tries again
		} else {
			loaded.users, loaded.last = e.waiting, time.Now()
			e.model = loaded
		}
		close(e.ready)
	})
	return e, nil
}

// close ends the loads and frees everything. No task may run.
func (m *models) close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	m.loads.Wait()
	m.mu.Lock()
	for _, e := range m.loaded {
		m.drop(e.model)
	}
	m.mu.Unlock()
	m.wg.Wait()
}

// close frees a model that has no users.
func (x *model) close() {
	if x.batcher != nil {
		x.batcher.close()
	}
	for range cap(x.requests) {
		(<-x.requests).Close()
	}
	x.compiled.Close()
}
