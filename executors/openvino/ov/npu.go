package ov

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// npuPlugin is the file that speaks to the NPU's driver.
const npuPlugin = "libopenvino_intel_npu_plugin.so"

// NPUStatus tells whether this process can use an NPU, and if not, which layer
// is missing.
type NPUStatus struct {
	Available bool
	// Reason is empty if Available, else one sentence that names the missing
	// layer and what to do.
	Reason string
	// Driver is the version of the user-mode driver, if one answered.
	Driver string
	// DriverFiles are the driver libraries that were loaded, so that a stale
	// second driver is seen.
	DriverFiles []string
}

// NPU looks for an NPU, layer by layer: the plug-in, the kernel's device, the
// permission to use it, the user-mode driver.
func (r *Runtime) NPU() NPUStatus {
	if err := r.enter(); err != nil {
		return NPUStatus{Reason: err.Error()}
	}
	defer r.gate.leave()
	return r.npu()
}

func (r *Runtime) npu() NPUStatus {
	found, err := r.property("NPU", "AVAILABLE_DEVICES")
	if err == nil && strings.TrimSpace(found) != "" {
		// Only known while a device is there; without a version the rest
		// still holds.
		driver, err := r.property("NPU", "NPU_DRIVER_VERSION")
		if err != nil {
			r.warn(fmt.Sprintf("the NPU does not tell its driver's version: %v", err))
		}
		return NPUStatus{Available: true, Driver: driver, DriverFiles: driverFiles("/proc/self/maps")}
	}
	if plugin := filepath.Join(filepath.Dir(r.library), npuPlugin); !exists(plugin) {
		return NPUStatus{Reason: fmt.Sprintf("the NPU plug-in is missing: %s (%s)", plugin, installHint)}
	}
	if reason := kernelDevice(r.devRoot); reason != "" {
		return NPUStatus{Reason: reason}
	}
	reason := "the NPU's user-mode driver does not answer: install intel-level-zero-npu and the Level Zero loader"
	if err != nil {
		reason = fmt.Sprintf("%s (%v)", reason, err)
	}
	return NPUStatus{Reason: reason, DriverFiles: driverFiles("/proc/self/maps")}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// kernelDevice says what is wrong with the NPU's device files, "" if nothing.
func kernelDevice(devRoot string) string {
	nodes, err := filepath.Glob(filepath.Join(devRoot, "accel", "accel*"))
	if err != nil || len(nodes) == 0 {
		return fmt.Sprintf("no NPU device: %s/accel has no accel* (a processor with an NPU and a kernel from 6.6 with the module intel_vpu are needed)", devRoot)
	}
	for _, node := range nodes {
		if unix.Access(node, unix.R_OK|unix.W_OK) == nil {
			return ""
		}
	}
	return fmt.Sprintf("no permission for the NPU device %s: add the user of this service to the group render", nodes[0])
}

// driverFiles lists the Level Zero libraries that are mapped into the process.
func driverFiles(maps string) []string {
	f, err := os.Open(maps)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
	var files []string
	for scan := bufio.NewScanner(f); scan.Scan(); {
		_, path, found := strings.Cut(scan.Text(), "/")
		if found && strings.HasPrefix(filepath.Base(path), "libze_") && !slices.Contains(files, "/"+path) {
			files = append(files, "/"+path)
		}
	}
	return files
}
