package openvino

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
)

// memoryFactor is how much more memory a loaded model takes than its file, as
// measured on the models in the catalogue.
const memoryFactor = 2

// A want says which model is needed, and how.
type want struct {
	card      engines.Card
	dir       string
	file      string // of the card, to load
	device    string // as asked: "" or AUTO, or an explicit one
	precision string
	length    int // tokens of the only sequence that a device without open dimensions is compiled for, 0: as the model is
}

// key tells loaded models apart. A file that was replaced has another sum.
type key struct {
	name, file, sum, device, precision string
	length                             int
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
	batcher   *batcher // only of task embed, from first use
	batchOnce sync.Once

	users int // with models.mu
	last  time.Time
	gone  bool
}

// entry is a model that is loaded or being loaded.
type entry struct {
	ready chan struct{} // closed when model or err is set
	model *model
	err   error
	bytes int64
}

// models loads models on demand and keeps those used last.
type models struct {
	rt       *ov.Runtime
	devices  *devices
	settings Settings

	life context.Context // ends the loads
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	loaded map[key]*entry
}

func newModels(rt *ov.Runtime, s Settings) *models {
	m := &models{rt: rt, settings: s, devices: newDevices(rt, s.Devices, s.Cooldown), loaded: map[key]*entry{}}
	m.life, m.stop = context.WithCancel(context.Background())
	if s.IdleUnload > 0 {
		m.wg.Go(m.janitor)
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

func (l *lease) release() {
	l.once.Do(func() {
		l.owner.mu.Lock()
		l.users--
		l.last = time.Now()
		free := l.gone && l.users == 0
		l.owner.mu.Unlock()
		if free {
			l.close()
		}
	})
}

// acquire returns the model on a device that w allows. progress is told while
// it waits.
func (m *models) acquire(ctx context.Context, w want, progress func(executors.Progress)) (*lease, error) {
	began := time.Now()
	if w.file == "" {
		w.file = w.card.Model
	}
	sum := fileSum(w.card, w.file)
	choices, err := m.devices.choose(w.device, sum)
	if err != nil {
		return nil, err
	}
	var failed []executors.Warning
	for i, c := range choices {
		k := key{name: w.card.Name, file: w.file, sum: sum, device: c.device, precision: w.precision}
		if !dynamic(c.device) {
			k.length = w.length
		}
		loaded, err := m.get(ctx, k, w, progress)
		if err == nil {
			return &lease{model: loaded, owner: m, warnings: append(failed, c.warnings...), load: time.Since(began)}, nil
		}
		if ctx.Err() != nil || !c.auto || i == len(choices)-1 {
			return nil, err
		}
		failed = append(failed, fallback(fmt.Sprintf("%s did not load the model (%v)", c.device, err), choices[i+1].device))
	}
	return nil, errors.New("no device was tried") // choose returns at least one
}

// dynamic reports whether a device runs models with open dimensions.
func dynamic(device string) bool { return device == deviceCPU || device[:3] == "GPU" }

func fileSum(card engines.Card, name string) string {
	for _, f := range card.Files {
		if f.Name == name {
			return f.SHA256
		}
	}
	return ""
}

// get returns the loaded model, with one user more.
func (m *models) get(ctx context.Context, k key, w want, progress func(executors.Progress)) (*model, error) {
	m.mu.Lock()
	e, ok := m.loaded[k]
	if !ok {
		var err error
		if e, err = m.start(k, w); err != nil {
			m.mu.Unlock()
			return nil, err
		}
	}
	m.mu.Unlock()
	if err := wait(ctx, e.ready, k, progress); err != nil {
		return nil, err
	}
	if e.err != nil {
		return nil, e.err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.model.gone {
		return nil, executors.Errorf(executors.CodeResourceExhausted, "model %s was unloaded at this moment", k.name)
	}
	e.model.users++
	e.model.last = time.Now()
	return e.model, nil
}

// wait tells every other second that a model is still being loaded.
func wait(ctx context.Context, ready <-chan struct{}, k key, progress func(executors.Progress)) error {
	select {
	case <-ready:
		return nil
	default:
	}
	progress(executors.Progress{Percent: 1, Stage: "load"})
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-ready:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case now := <-tick.C:
			progress(executors.Progress{Percent: 1, Stage: "compile",
				Message: fmt.Sprintf("model %s is being compiled for %s, %d s so far", k.name, k.device, int(now.Sub(began).Seconds()))})
		}
	}
}

// start begins to load a model, after room was made for it. Call with mu held.
func (m *models) start(k key, w want) (*entry, error) {
	need := estimate(w.card, k.file)
	if err := m.makeRoom(need, k.name); err != nil {
		return nil, err
	}
	e := &entry{ready: make(chan struct{}), bytes: need}
	m.loaded[k] = e
	m.wg.Go(func() {
		ctx, cancel := context.WithTimeout(m.life, m.settings.LoadTimeout)
		defer cancel()
		loaded, err := m.load(ctx, k, w)
		m.mu.Lock()
		defer m.mu.Unlock()
		e.model, e.err = loaded, err
		if err != nil {
			delete(m.loaded, k) // the next task tries again
		}
		close(e.ready)
	})
	return e, nil
}

// estimate is the memory that a model will take.
func estimate(card engines.Card, name string) int64 {
	for _, f := range card.Files {
		if f.Name == name {
			return f.Size * memoryFactor
		}
	}
	return 0
}

// makeRoom unloads models that nobody uses, least recently used first, until
// need bytes more fit. Call with mu held.
func (m *models) makeRoom(need int64, name string) error {
	limit := m.settings.MaxLoadedMB << 20
	if need > limit {
		e := executors.Errorf(executors.CodeResourceExhausted, "model %s needs about %d MiB, models may take %d MiB", name, need>>20, limit>>20)
		e.Retryable = false
		e.Hint = "raise executors.openvino.max_loaded_mb"
		return e
	}
	for {
		used := int64(0)
		var oldest *entry
		for _, e := range m.loaded {
			used += e.bytes
			if e.model != nil && e.model.users == 0 && (oldest == nil || e.model.last.Before(oldest.model.last)) {
				oldest = e
			}
		}
		if used+need <= limit {
			return nil
		}
		if oldest == nil {
			e := executors.Errorf(executors.CodeResourceExhausted, "models in use take about %d of %d MiB, model %s needs %d", used>>20, limit>>20, name, need>>20)
			e.Hint = "raise executors.openvino.max_loaded_mb"
			e.Delay = 5 * time.Second
			return e
		}
		m.drop(oldest.model)
	}
}

// drop takes a model out of the list; it is freed when its last user is done.
// Call with mu held.
func (m *models) drop(x *model) {
	if e := m.loaded[x.key]; e != nil && e.model == x {
		delete(m.loaded, x.key)
	}
	x.gone = true
	if x.users == 0 {
		m.wg.Go(x.close)
	}
}

// forget drops every model of a device that was lost.
func (m *models) forget(device string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, e := range m.loaded {
		if k.device == device && e.model != nil {
			m.drop(e.model)
		}
	}
}

// unload drops the models with this name and returns how many there were.
func (m *models) unload(name, device string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for k, e := range m.loaded {
		if k.name == name && (device == "" || device == deviceAuto || k.device == device) && e.model != nil {
			m.drop(e.model)
			n++
		}
	}
	return n
}

// janitor unloads models that nobody used for a while.
func (m *models) janitor() {
	tick := time.NewTicker(max(m.settings.IdleUnload/4, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-m.life.Done():
			return
		case now := <-tick.C:
			m.mu.Lock()
			for _, e := range m.loaded {
				if e.model != nil && e.model.users == 0 && now.Sub(e.model.last) >= m.settings.IdleUnload {
					m.drop(e.model)
				}
			}
			m.mu.Unlock()
		}
	}
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

// close frees everything. No task may run.
func (m *models) close() {
	m.stop()
	m.mu.Lock()
	for _, e := range m.loaded {
		if e.model != nil {
			m.drop(e.model)
		}
	}
	m.mu.Unlock()
	m.wg.Wait()
}

// path is where the file of a model is.
func (w want) path() string { return filepath.Join(w.dir, w.file) }
