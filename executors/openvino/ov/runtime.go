package ov

import (
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Runtime is the OpenVINO runtime of this process. All methods may be called
// from any goroutine.
type Runtime struct {
	api      *api
	core     *core
	table    elementTable
	version  Version
	library  string
	cacheDir string
	warn     func(string)
	devRoot  string // where device files are; tests set it

	gate   *gate
	closed chan struct{} // closed when everything is freed
	once   sync.Once
	free   func() // gives the process's place back

	mu     sync.Mutex
	models map[*Compiled]struct{}
}

// Option changes how Open works.
type Option func(*Runtime)

// WithCacheDir keeps compiled models in dir, which is made if it is missing
// and must not be writable by others: the library trusts what it finds there.
// Without it nothing is kept, unless CompileOptions.CacheDir says so.
func WithCacheDir(dir string) Option {
	return func(r *Runtime) { r.cacheDir = dir }
}

// WithWarnings gives warn one sentence for each thing a person should know,
// such as a second library in the folder. Without it they are dropped.
func WithWarnings(warn func(string)) Option {
	return func(r *Runtime) { r.warn = warn }
}

// process holds the place for the one runtime of the process.
var process = make(chan struct{}, 1)

// Open loads the runtime whose libraries are in libDir. There is one per
// process: while it is open, Open is ErrOpen.
//
// Errors say what is missing and how to get it. A release before 2024.0 is
// refused, and so is a library that is not of the release it claims to be.
func Open(libDir string, opts ...Option) (*Runtime, error) {
	select {
	case process <- struct{}{}:
	default:
		return nil, ErrOpen
	}
	release := func() { <-process }
	r, err := open(libDir, opts...)
	if err != nil {
		release()
		return nil, fmt.Errorf("open OpenVINO: %w", err)
	}
	r.free = release
	return r, nil
}

// open is Open without the rule of one per process.
func open(libDir string, opts ...Option) (*Runtime, error) {
	if runtime.GOOS != "linux" || (runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64") {
		return nil, fmt.Errorf("OpenVINO runs on linux/amd64 and linux/arm64, this is %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	r := &Runtime{
		warn:    func(string) {},
		devRoot: "/dev",
		gate:    newGate(),
		closed:  make(chan struct{}),
		free:    func() {},
		models:  make(map[*Compiled]struct{}),
	}
	for _, o := range opts {
		o(r)
	}
	var others []string
	var err error
	if r.api, r.library, others, err = loadAPI(libDir); err != nil {
		return nil, err
	}
	if r.version, err = r.api.version(); err != nil {
		return nil, fmt.Errorf("%s: %w", r.library, err)
	}
	if r.version.Major < minMajor {
		return nil, fmt.Errorf("%s is release %s: %d.0 or newer is needed (%s)", r.library, r.version, minMajor, installHint)
	}
	if r.table, err = chooseTable(r.api, r.version); err != nil {
		return nil, fmt.Errorf("%s says release %s: %w", r.library, r.version, err)
	}
	if r.core, err = startCore(r.api); err != nil {
		return nil, err
	}
	if err := r.setDefaults(); err != nil {
		r.core.stop()
		return nil, err
	}
	if r.version.Major < safeMajor {
		r.warn(fmt.Sprintf("release %s of OpenVINO can crash on damaged model files, %d.0 and newer do not (%s)", r.version, safeMajor, installHint))
	}
	for _, other := range others {
		r.warn(fmt.Sprintf("%s is not used: %s is newer", other, r.library))
	}
	return r, nil
}

func (a *api) version() (Version, error) {
	var v cVersion
	if st := a.getVersion(&v); st != statusOK {
		return Version{}, a.failure("read the version", st)
	}
	defer a.versionFree(&v)
	if v.build == nil {
		return Version{}, fmt.Errorf("the library has no version")
	}
	return ParseVersion(unix.BytePtrToString(v.build))
}

// setDefaults sets on the core what must hold for imports too, which take no
// options of their own.
func (r *Runtime) setDefaults() error {
	for _, p := range []struct{ device, key, value string }{
		{"CPU", keyPrecision, PrecisionF32},
		{"CPU", keyHint, HintLatency},
	} {
		if st := r.api.coreSetProperty(r.core.handle, p.device, p.key, p.value); st != statusOK {
			return r.api.failure(fmt.Sprintf("set %s of %s to %s", p.key, p.device, p.value), st)
		}
	}
	// Without the NPU's plug-in or driver this fails and there is nothing to
	// set; the compile call passes the same, and NPU reports why there is none.
	r.api.coreSetProperty(r.core.handle, "NPU", keyNPUCompiler, npuCompilerDriver)
	return nil
}

// Version is the release of the library.
func (r *Runtime) Version() Version { return r.version }

// Library is the path of the C library that was loaded.
func (r *Runtime) Library() string { return r.library }

// Close cancels what runs, closes every model and frees the library's core.
// A model that is being compiled cannot be interrupted; Close waits for it.
// Later calls do nothing.
func (r *Runtime) Close() {
	r.gate.close()
	r.once.Do(func() {
		// Nobody is inside any more, and nobody can enter.
		for c := range r.models {
			c.release()
		}
		r.core.stop()
		close(r.closed)
		r.free()
	})
	<-r.closed
}

// enter lets a call in.
func (r *Runtime) enter() error {
	if !r.gate.enter() {
		return fmt.Errorf("OpenVINO runtime: %w", ErrClosed)
	}
	return nil
}
