package ov

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/ebitengine/purego"
)

// installHint repairs every error that says that the runtime is missing or
// incomplete.
const installHint = "autobot-agent engines install openvino"

// libraryPrefix is what the C library is called before its release number.
const libraryPrefix = "libopenvino_c.so"

// ErrNotInstalled is in the error of Open when the folder has no runtime, or
// one with parts missing.
var ErrNotInstalled = errors.New("the OpenVINO runtime is not installed")

// loadAPI loads the C library in dir. path is the file that was taken; others
// are libraries of other releases that lie in the same folder.
//
// A library is never unloaded: it starts threads of its own.
func loadAPI(dir string) (a *api, path string, others []string, err error) {
	path, others, err = findLibrary(dir)
	if err != nil {
		return nil, "", nil, err
	}
	// dlerror belongs to the thread that failed.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, "", nil, fmt.Errorf("load %s: %w: %w (%s)", path, ErrNotInstalled, err, installHint)
	}
	a = new(api)
	for _, s := range a.symbols() {
		address, err := purego.Dlsym(lib, s.name)
		if err != nil {
			return nil, "", nil, fmt.Errorf("load %s: it has no function %s: %w: %w (%s)", path, s.name, ErrNotInstalled, err, installHint)
		}
		purego.RegisterFunc(s.fn, address)
	}
	return a, path, others, nil
}

// findLibrary returns the newest C library in dir by the number at its end
// (libopenvino_c.so.2641 is release 2026.4.1), and the older ones.
func findLibrary(dir string) (path string, others []string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", nil, fmt.Errorf("find the OpenVINO runtime: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", nil, fmt.Errorf("find the OpenVINO runtime: %w: %w (%s)", ErrNotInstalled, err, installHint)
	}
	var found []string
	for _, e := range entries {
		if e.Name() == libraryPrefix || strings.HasPrefix(e.Name(), libraryPrefix+".") {
			found = append(found, e.Name())
		}
	}
	if len(found) == 0 {
		return "", nil, fmt.Errorf("%w: %s has no %s.* (%s)", ErrNotInstalled, dir, libraryPrefix, installHint)
	}
	slices.SortFunc(found, func(x, y string) int { return releaseNumber(y) - releaseNumber(x) })
	for _, name := range found[1:] {
		others = append(others, filepath.Join(dir, name))
	}
	return filepath.Join(dir, found[0]), others, nil
}

// releaseNumber is the number at the end of a library's name, 0 without one.
func releaseNumber(name string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(name, libraryPrefix+"."))
	if err != nil {
		return 0
	}
	return n
}
