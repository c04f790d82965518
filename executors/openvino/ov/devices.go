package ov

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Property keys that this package sets or reads itself.
const (
	keyCacheDir         = "CACHE_DIR"
	keyHint             = "PERFORMANCE_HINT"
	keyPrecision        = "INFERENCE_PRECISION_HINT"
	keyThreads          = "INFERENCE_NUM_THREADS"
	keyStreams          = "NUM_STREAMS"
	keyNPUCompiler      = "NPU_COMPILER_TYPE"
	keyExecutionDevices = "EXECUTION_DEVICES"
	keyFromCache        = "LOADED_FROM_CACHE"

	// The compiler in the NPU's driver. The one in the package is a preview
	// and is not installed.
	npuCompilerDriver = "DRIVER"
)

// Devices lists the devices that are there: "CPU", "NPU", or with a number
// where there are several, "GPU.0".
func (r *Runtime) Devices() ([]string, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.gate.leave()
	return r.devices()
}

func (r *Runtime) devices() ([]string, error) {
	var list cDevices
	if st := r.api.coreDevices(r.core.handle, &list); st != statusOK {
		return nil, r.api.failure("list the devices", st)
	}
	defer r.api.coreDevicesFree(&list)
	var names []string
	if list.names != nil {
		for _, name := range unsafe.Slice(list.names, list.n) { //nolint:gosec // n names, as the library says
			names = append(names, unix.BytePtrToString(name))
		}
	}
	return names, nil
}

// Property reads one property of a device as text. Lists are separated by
// spaces.
func (r *Runtime) Property(device, key string) (string, error) {
	if err := checkDeviceName(device); err != nil {
		return "", err
	}
	if err := checkText("property key", key); err != nil {
		return "", err
	}
	if err := r.enter(); err != nil {
		return "", err
	}
	defer r.gate.leave()
	return r.property(device, key)
}

func (r *Runtime) property(device, key string) (string, error) {
	var value *byte
	if st := r.api.coreGetProperty(r.core.handle, device, key, &value); st != statusOK {
		return "", r.api.failure(fmt.Sprintf("read %s of %s", key, device), st)
	}
	return r.api.take(value), nil
}

// kind is a device name without its number: GPU.0 is a GPU.
func kind(device string) string {
	k, _, _ := strings.Cut(device, ".")
	return k
}

// checkDeviceName refuses what is not the name of one device. With AUTO and
// its like the library runs a model somewhere else without saying so.
func checkDeviceName(device string) error {
	if err := checkText("device", device); err != nil {
		return fmt.Errorf("%w: %w", ErrNoDevice, err)
	}
	for _, c := range device {
		if !(c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_') {
			return fmt.Errorf("%w: %q is not the name of one device, such as CPU or NPU", ErrNoDevice, device)
		}
	}
	switch strings.ToUpper(kind(device)) {
	case "AUTO", "MULTI", "HETERO", "BATCH":
		return fmt.Errorf("%w: %s would choose a device silently; name it, such as CPU or NPU", ErrNoDevice, device)
	}
	return nil
}

// checkDevice says whether device is there, and if not, why.
func (r *Runtime) checkDevice(device string) error {
	if err := checkDeviceName(device); err != nil {
		return err
	}
	devices, err := r.devices()
	if err != nil {
		return err
	}
	matches := func(d string) bool { return d == device || kind(d) == device }
	if slices.ContainsFunc(devices, matches) {
		return nil
	}
	if kind(device) == "NPU" {
		return fmt.Errorf("%w: %s: %s", ErrNoDevice, device, r.npu().Reason)
	}
	return fmt.Errorf("%w: %s (this machine has %s)", ErrNoDevice, device, strings.Join(devices, ", "))
}
