package openvino

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
)

const (
	deviceAuto = "AUTO"
	deviceCPU  = "CPU"
)

// devices decides on which device a model runs. An explicit one is used or is
// an error; AUTO is ours, the runtime's own never runs.
type devices struct {
	rt       *ov.Runtime
	order    []string
	builtIn  bool // nobody chose the order: what the machine never had is not missed
	cooldown time.Duration
	now      func() time.Time

	mu         sync.Mutex
	lost       map[string]time.Time // device -> until when it rests
	seen       map[string]bool      // kinds of devices that were present once
	quarantine map[string]string    // device and model -> why it is not used
}

// builtInOrder is the order of AUTO where the settings give none.
var builtInOrder = []string{"NPU", "GPU", deviceCPU}

// newDevices takes the order of AUTO, or nil for the built-in one.
func newDevices(rt *ov.Runtime, order []string, cooldown time.Duration) *devices {
	d := &devices{
		rt: rt, order: order, builtIn: order == nil, cooldown: cooldown, now: time.Now,
		lost: map[string]time.Time{}, seen: map[string]bool{}, quarantine: map[string]string{},
	}
	if d.builtIn {
		d.order = builtInOrder
	}
	return d
}

// choice is a device and what has to be said about it.
type choice struct {
	device   string
	auto     bool // another device may be tried
	warnings []executors.Warning
}

// choose returns the devices to try in this order, at least one. subject is the
// model that they are to run.
func (d *devices) choose(asked, subject string) ([]choice, error) {
	present, err := d.rt.Devices()
	if err != nil {
		return nil, executors.Errorf(executors.CodeEngineUnavailable, "the OpenVINO runtime does not list its devices: %v", err)
	}
	d.remember(present)
	if asked == "" {
		asked = deviceAuto
	}
	if asked != deviceAuto {
		if !deviceName.MatchString(asked) {
			return nil, executors.Invalid("device", "must be AUTO, CPU, NPU, GPU or GPU.n, got %q", cut(asked))
		}
		if reason := d.absent(asked, present); reason != "" {
			return nil, d.unavailable(asked, reason, present)
		}
		if reason := d.distrusted(asked, subject, present); reason != "" {
			return nil, mismatch(asked, reason)
		}
		return []choice{{device: resolve(asked, present)}}, nil
	}
	var out []choice
	var skipped, missed []string // missed is what a person should know of
	for _, name := range d.order {
		if reason := cmp.Or(d.absent(name, present), d.distrusted(name, subject, present)); reason != "" {
			skipped = append(skipped, name+" "+reason)
			if !d.builtIn || reason != notPresent || d.wasSeen(name) {
				missed = append(missed, name+" "+reason)
			}
			continue
		}
		c := choice{device: resolve(name, present), auto: true}
		if len(missed) > 0 {
			c.warnings = []executors.Warning{fallback(strings.Join(missed, "; "), c.device)}
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, d.unavailable(strings.Join(d.order, ", "), "is not usable: "+strings.Join(skipped, "; "), present)
	}
	return out, nil
}

// fallback is the warning that AUTO did not get what it looked for first.
func fallback(why, used string) executors.Warning {
	return executors.Warning{Code: "DEVICE_FALLBACK", Message: fmt.Sprintf("%s; used %s", why, used)}
}

// remember notes which kinds of devices this machine has.
func (d *devices) remember(present []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range present {
		d.seen[kind(p)] = true
	}
}

// wasSeen reports whether a device of this kind was present once: one that is
// gone is missed, whoever chose the order.
func (d *devices) wasSeen(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen[kind(name)]
}

// resolve gives a device without a number the first of its kind.
func resolve(name string, present []string) string {
	if slices.Contains(present, name) {
		return name
	}
	for _, p := range present {
		if strings.HasPrefix(p, name+".") {
			return p
		}
	}
	return name
}

// absent says why a device cannot be used now, or "".
func (d *devices) absent(name string, present []string) string {
	name = resolve(name, present)
	if !slices.Contains(present, name) {
		return notPresent
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if until, resting := d.lost[name]; resting {
		if left := until.Sub(d.now()); left > 0 {
			return fmt.Sprintf("was lost and rests for %d s more", int((left+time.Second-1)/time.Second))
		}
		delete(d.lost, name)
	}
	return ""
}

const notPresent = "is not present"

// distrusted says why a device is not used for a model, or "".
func (d *devices) distrusted(name, subject string, present []string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.quarantine[resolve(name, present)+" "+subject]
}

// mismatch is the error about a device that computes something else than the
// CPU.
func mismatch(device, reason string) error {
	e := executors.Errorf(executors.CodeNumericMismatch, "device %s %s", device, reason)
	e.Field = "device"
	e.Hint = "use device AUTO or CPU; another driver may do better, after which the executor has to be started anew"
	return e
}

// unavailable is the error about a device that was asked for.
func (d *devices) unavailable(name, reason string, present []string) error {
	e := executors.Errorf(executors.CodeDeviceUnavailable, "device %s %s; present: %s", name, reason, strings.Join(present, ", "))
	e.Field = "device"
	switch {
	case strings.HasPrefix(name, "NPU"):
		e.Hint = d.rt.NPU().Reason
	case strings.HasPrefix(name, "GPU"):
		e.Hint = "the GPU plug-in of the runtime is not installed by this product; use CPU or NPU"
	}
	return e
}

// markLost lets a device rest.
func (d *devices) markLost(device string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost[device] = d.now().Add(d.cooldown)
}

// distrust keeps a device from being used for a model that it computes wrongly.
func (d *devices) distrust(device, subject, why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.quarantine[device+" "+subject] = why
}

// isLost reports whether an error means that the device is gone: it says so,
// or the device is not in the list any more. The runtime has one status for all
// failures, and on the CPU there is nothing to lose.
func (d *devices) isLost(device string, err error) bool {
	var failed *ov.Error
	if kind(device) == deviceCPU || !errors.As(err, &failed) {
		return false
	}
	text := strings.ToLower(failed.Text)
	for _, sign := range []string{"device_lost", "device lost", "device is lost", "0x70000001"} { // ZE_RESULT_ERROR_DEVICE_LOST of Level Zero
		if strings.Contains(text, sign) {
			return true
		}
	}
	present, err := d.rt.Devices()
	return err == nil && !slices.Contains(present, device)
}

// driver names the driver of a device in a message, "" where none is known.
func (d *devices) driver(device string) string {
	if kind(device) != "NPU" {
		return ""
	}
	if v := d.rt.NPU().Driver; v != "" {
		return " (driver " + v + ")"
	}
	return ""
}

// kind is a device without its number: GPU.1 is a GPU.
func kind(device string) string {
	k, _, _ := strings.Cut(device, ".")
	return k
}
