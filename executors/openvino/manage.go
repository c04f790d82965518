package openvino

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

type modelPayload struct {
	target
	seed
}

// loadModel is op load_model: the model is ready before the first task, with
// all its files, and on a device with fixed sizes for each of them.
func (e *Executor) loadModel(ctx context.Context, task executors.Task) (executors.Result, error) {
	var p modelPayload
	if err := executors.DecodePayload(task, &p); err != nil {
		return executors.Result{}, err
	}
	w, err := e.find(p.target, "", "")
	if err != nil {
		return executors.Result{}, err
	}
	files, lengths := []string{w.card.Model}, w.card.StaticShapes
	if o := w.card.OCR; o != nil {
		files = slices.DeleteFunc([]string{o.Detector, o.Recogniser, o.Orientation}, func(f string) bool { return f == "" })
	}
	if len(lengths) == 0 {
		lengths = []int{0}
	}
	var all loading
	for _, w.file = range files {
		for _, w.length = range lengths {
			l, err := e.models.acquire(ctx, w, task.Progress)
			if err != nil {
				return executors.Result{}, err
			}
			all.add(l)
			fixed := !dynamic(l.key.device)
			l.release()
			if !fixed {
				break
			}
		}
	}
	r, err := encode(opLoad, map[string]any{
		"model": info(w.card, w.card.Model), "device": all.device, "compiled_ms": all.took.Milliseconds(), "from_cache": !all.compiled, "bytes": all.bytes,
	}, all.warnings)
	r.Load = all.load
	return r, err
}

// loading sums up what was loaded.
type loading struct {
	device     string
	took, load time.Duration
	compiled   bool // one of them was not in the cache
	bytes      int64
	warnings   []executors.Warning
}

func (all *loading) add(l *lease) {
	all.device = l.device
	all.took += l.took
	all.load += l.load
	all.bytes += l.bytes
	all.compiled = all.compiled || !l.compiled.FromCache()
	for _, w := range l.warnings {
		if !slices.Contains(all.warnings, w) {
			all.warnings = append(all.warnings, w)
		}
	}
}

// unloadModel is op unload_model. Tasks that use the model end first.
func (e *Executor) unloadModel(task executors.Task) (executors.Result, error) {
	var p modelPayload
	if err := executors.DecodePayload(task, &p); err != nil {
		return executors.Result{}, err
	}
	w, err := e.find(p.target, "", "")
	if err != nil {
		return executors.Result{}, err
	}
	n := e.models.unload(w.card.Name, p.Device)
	return encode(opUnload, map[string]any{"model": info(w.card, w.card.Model), "unloaded": n}, nil)
}

// deviceInfo is one device in the output of op device_info.
type deviceInfo struct {
	ID        string `json:"id"`
	FullName  string `json:"full_name,omitempty"`
	Available bool   `json:"available"`
	Driver    string `json:"driver,omitempty"`
	Reason    string `json:"reason,omitempty"` // why it is not available
}

func (e *Executor) deviceInfo(task executors.Task) (executors.Result, error) {
	var p seed
	if err := executors.DecodePayload(task, &p); err != nil {
		return executors.Result{}, err
	}
	rt := e.rt
	present, err := rt.Devices()
	if err != nil {
		return executors.Result{}, executors.Errorf(executors.CodeEngineUnavailable, "the OpenVINO runtime does not list its devices: %v", err)
	}
	list := []deviceInfo{}
	for _, name := range present {
		d := deviceInfo{ID: name, Available: true}
		if full, err := rt.Property(name, "FULL_DEVICE_NAME"); err == nil {
			d.FullName = strings.TrimSpace(full)
		}
		if reason := e.models.devices.absent(name, present); reason != "" {
			d.Available, d.Reason = false, "it "+reason
		}
		if strings.HasPrefix(name, "NPU") {
			d.Driver = rt.NPU().Driver
		}
		list = append(list, d)
	}
	for _, name := range e.models.devices.order {
		if reason := e.models.devices.absent(name, present); reason == notPresent {
			d := deviceInfo{ID: name, Reason: "it is not present"}
			var known *executors.Error
			if errors.As(e.models.devices.unavailable(name, reason, present), &known) && known.Hint != "" {
				d.Reason = known.Hint
			}
			list = append(list, d)
		}
	}
	selected := ""
	if choices, err := e.models.devices.choose(deviceAuto, ""); err == nil {
		selected = choices[0].device
	}
	version := rt.Version()
	return encode(opDeviceInfo, map[string]any{
		"devices": list, "selected": selected, "engine_version": version.String(), "library": rt.Library(),
	}, nil)
}
