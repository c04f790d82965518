package openvino

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
)

// canaryCosine is how closely another device has to agree with the CPU.
const canaryCosine = 0.99

// load compiles a model, and on another device than the CPU compares it with
// the CPU first.
func (m *models) load(ctx context.Context, k key, w want) (*model, error) {
	if err := w.card.Verify(w.dir); err != nil {
		return nil, loadFailed(k, err)
	}
	before, err := os.Stat(w.path())
	if err != nil {
		return nil, loadFailed(k, err)
	}
	began := time.Now()
	compiled, warnings, err := m.compile(ctx, k, w)
	if err != nil {
		return nil, err
	}
	if after, err := os.Stat(w.path()); err != nil || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		compiled.Close()
		m.cache.forget(fileSum(w.card, k.file))
		e := loadFailed(k, errors.New("its file was replaced meanwhile"))
		e.Retryable = true
		return nil, e
	}
	x := &model{
		key: k, card: w.card, compiled: compiled, requests: make(chan *ov.Request, m.settings.Slots),
		device: compiled.Device(), bytes: estimate(w.card, k.file), warnings: warnings, last: time.Now(),
	}
	if err = m.accept(ctx, k, w, compiled); err == nil {
		err = x.ready(m.settings.Slots)
	}
	if err != nil {
		compiled.Close()
		return nil, err
	}
	x.took = time.Since(began)
	return x, nil
}

// accept checks a model that was compiled: that it runs where it should, and on
// another device than the CPU that it computes the same.
func (m *models) accept(ctx context.Context, k key, w want, compiled *ov.Compiled) error {
	if len(compiled.Outputs()) == 0 {
		return loadFailed(k, errors.New("it has no outputs"))
	}
	if got := compiled.Device(); kind(got) != kind(k.device) {
		e := executors.Errorf(executors.CodeDeviceUnavailable, "device %s: the runtime runs model %s on %s instead", k.device, k.name, got)
		e.Field = "device"
		return e
	}
	if kind(k.device) == deviceCPU {
		return nil
	}
	return m.canary(ctx, k, w, compiled)
}

// ready makes the requests of a model. Closing the model frees them.
func (x *model) ready(slots int) error {
	for range slots {
		r, err := x.compiled.NewRequest()
		if err != nil {
			return loadFailed(x.key, err)
		}
		x.requests <- r
	}
	return nil
}

// compile compiles a model, with the cache where that works.
func (m *models) compile(ctx context.Context, k key, w want) (*ov.Compiled, []executors.Warning, error) {
	options := ov.CompileOptions{CacheKey: fileSum(w.card, k.file), Precision: k.precision, Threads: threads(m.settings.Threads)}
	if !dynamic(k.device) {
		options.Threads = 0
		var err error
		if options.Reshape, err = fixedShapes(w, k.length); err != nil {
			return nil, nil, loadFailed(k, err)
		}
	}
	if w.card.Format == engines.FormatIR {
		options.CacheKey = "" // the weights are in a second file
	}
	compiled, warnings, err := m.cached(ctx, k, w, options)
	switch {
	case err == nil:
		return compiled, warnings, nil
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case errors.Is(err, ov.ErrNoDevice):
		e := executors.Errorf(executors.CodeDeviceUnavailable, "device %s: %v", k.device, err)
		e.Field = "device"
		return nil, nil, e
	case m.devices.isLost(k.device, err):
		return nil, nil, m.lostDevice(k.device, err)
	}
	return nil, nil, loadFailed(k, err)
}

// threads bounds the processors of an inference where nobody did: a process that
// may use less than the machine has would only be slowed down by the others.
func threads(set int) int {
	if allowed := runtime.GOMAXPROCS(0); set == 0 && allowed < runtime.NumCPU() {
		return allowed
	}
	return set
}

// cached compiles a model with the cache. A cache that cannot be used costs a
// warning and the time to compile, not the task.
func (m *models) cached(ctx context.Context, k key, w want, options ov.CompileOptions) (*ov.Compiled, []executors.Warning, error) {
	folder, unusable := m.rt.CacheFolder(w.path(), k.device, options)
	if unusable == nil && folder == "" {
		compiled, err := m.rt.Compile(ctx, w.path(), k.device, options)
		return compiled, nil, err
	}
	var warnings []executors.Warning
	if unusable == nil {
		damaged := m.cache.begin(folder)
		defer m.cache.end(folder)
		if damaged > 0 {
			warnings = append(warnings, executors.Warning{Code: "CACHE_DAMAGED",
				Message: fmt.Sprintf("the compiled form of model %s in %s was damaged; it was compiled again", k.name, folder)})
		}
		compiled, err := m.rt.Compile(ctx, w.path(), k.device, options)
		var refused *ov.Error
		switch {
		case err == nil && !compiled.FromCache():
			if full := m.cache.room(folder); full != nil {
				warnings = append(warnings, unusableCache(k, full))
			}
			return compiled, warnings, nil
		case !errors.As(err, &refused) || m.devices.isLost(k.device, err):
			return compiled, warnings, err
		}
		unusable = err
	}
	options.NoCache = true
	compiled, err := m.rt.Compile(ctx, w.path(), k.device, options)
	if err != nil {
		return nil, nil, err
	}
	return compiled, append(warnings, unusableCache(k, unusable)), nil
}

func unusableCache(k key, why error) executors.Warning {
	return executors.Warning{Code: "CACHE_UNUSABLE", Message: fmt.Sprintf("model %s was compiled without the cache: %v", k.name, why)}
}

// fixedShapes gives each input its only shape, for a device that needs that: one text
// of length tokens, and what the card says of other models.
func fixedShapes(w want, length int) (map[string][]int64, error) {
	shapes := map[string][]int64{}
	for _, p := range w.card.Inputs {
		shape := append([]int64{}, p.Shape...)
		for i, d := range shape {
			switch {
			case d >= 0:
			case i == 0:
				shape[i] = 1
			case length > 0:
				shape[i] = int64(length)
			default:
				return nil, fmt.Errorf("input %s has open dimensions %v, which this device does not run: the card needs static_shapes or a fixed shape", p.Name, p.Shape)
			}
		}
		shapes[p.Name] = shape
	}
	return shapes, nil
}

// loadFailed says that a model cannot be used. A file that is not readable now
// may be later; one that is wrong stays so.
func loadFailed(k key, err error) *executors.Error {
	e := executors.Errorf(executors.CodeModelLoadFailed, "model %s (%s) does not load for %s: %v", k.name, k.file, k.device, err)
	var path *os.PathError
	e.Retryable = errors.As(err, &path) && !errors.Is(err, fs.ErrNotExist)
	e.Hint = "add the model again: autobot-agent models add, or engines install " + k.name
	return e
}

// lostDevice lets a device rest and drops its models.
func (m *models) lostDevice(device string, err error) error {
	m.devices.markLost(device)
	m.forget(device)
	e := executors.Errorf(executors.CodeDeviceLost, "device %s was lost%s: %v", device, m.devices.driver(device), err)
	e.Hint = fmt.Sprintf("it rests for %s; if this happens again, look at the kernel's log and reload its driver", m.settings.Cooldown)
	return e
}
