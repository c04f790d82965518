package ov

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Values of CompileOptions.Hint and Precision.
const (
	HintLatency    = "LATENCY"
	HintThroughput = "THROUGHPUT"

	PrecisionF32  = "f32"
	PrecisionF16  = "f16"
	PrecisionBF16 = "bf16"
)

// CompileOptions say how a model is prepared. The zero value suits one request
// at a time with exact results.
type CompileOptions struct {
	// CacheDir keeps the compiled model, see WithCacheDir, whose folder is the
	// default. A model lies in a folder of its own named by release and
	// content, so a changed model is never mistaken for an old one.
	CacheDir string
	// CacheKey is the sha256 of the model (with its weights) in hex, if it is
	// known. By default the model's file and the .bin beside an .xml are read
	// to find it; give it for ONNX models whose weights are in further files.
	CacheKey string
	// NoCache keeps nothing.
	NoCache bool
	// Hint is HintLatency (the default) or HintThroughput.
	Hint string
	// Precision is what the device computes in. CPU: f32 by default.
	Precision string
	// Threads and Streams bound the CPU's use; 0 leaves it to the library.
	Threads, Streams int
	// Reshape gives inputs, by name, other dimensions before compiling. -1
	// leaves a dimension open. The NPU needs all of them fixed.
	Reshape map[string][]int64
	// Properties are further properties of the device, by the runtime's names.
	Properties map[string]string
}

// Compile loads the model at path (ONNX, OpenVINO IR or TensorFlow Lite) for
// one device: "CPU", "NPU", or "GPU.0" where there are several.
//
// It returns when ctx ends, even though the library cannot be interrupted: it
// finishes in the background and Runtime.Close waits for it.
func (r *Runtime) Compile(ctx context.Context, path, device string, opts CompileOptions) (*Compiled, error) {
	if err := checkModelFile(path); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("compile %s: %w", path, err)
	}
	c, err := r.load(ctx, device, func() (*loaded, error) {
		return r.compile(path, device, opts)
	})
	if err != nil {
		return nil, fmt.Errorf("compile %s for %s: %w", path, device, err)
	}
	return c, nil
}

func checkModelFile(path string) error {
	if err := checkText("path of the model", path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", path)
	}
	return nil
}

func (o CompileOptions) validate() error {
	if !slices.Contains([]string{"", HintLatency, HintThroughput}, o.Hint) {
		return fmt.Errorf("hint %q is neither %s nor %s", o.Hint, HintLatency, HintThroughput)
	}
	if !slices.Contains([]string{"", PrecisionF32, PrecisionF16, PrecisionBF16}, o.Precision) {
		return fmt.Errorf("precision %q is none of %s, %s, %s", o.Precision, PrecisionF32, PrecisionF16, PrecisionBF16)
	}
	if o.Threads < 0 || o.Streams < 0 {
		return fmt.Errorf("threads and streams cannot be negative")
	}
	if strings.ContainsAny(o.CacheKey, "/\x00") {
		return fmt.Errorf("cache key %q is not a sha256", o.CacheKey)
	}
	for key, value := range o.Properties {
		if err := checkText("property key", key); err != nil {
			return err
		}
		if strings.ContainsRune(value, 0) {
			return fmt.Errorf("property %s has a NUL in it", key)
		}
		if slices.Contains([]string{keyCacheDir, keyHint, keyPrecision, keyThreads, keyStreams, keyNPUCompiler}, key) {
			return fmt.Errorf("property %s is set by an option of its own", key)
		}
	}
	for name, dims := range o.Reshape {
		if err := checkText("name of an input", name); err != nil {
			return err
		}
		if len(dims) > maxRank || slices.ContainsFunc(dims, func(d int64) bool { return d < -1 }) {
			return fmt.Errorf("input %s cannot have the dimensions %v", name, dims)
		}
	}
	return nil
}

// compile makes one library object of the model. It runs again when the
// object of an earlier call was given up.
func (r *Runtime) compile(path, device string, opts CompileOptions) (*loaded, error) {
	if err := r.checkDevice(device); err != nil {
		return nil, err
	}
	cache, err := r.cacheFolder(path, device, opts)
	if err != nil {
		return nil, err
	}
	pairs, err := opts.pairs(device, cache)
	if err != nil {
		return nil, err
	}
	a := r.api
	var handle compiledHandle
	if len(opts.Reshape) == 0 && kind(device) != "NPU" {
		// The library finds its cache entry best by the file.
		if st := a.coreCompileFile(r.core.handle, path, device, uintptr(len(pairs)), &handle, pairs...); st != statusOK {
			return nil, a.failure("compile model", st)
		}
		return r.describe(handle, nil)
	}
	var model modelHandle
	if st := a.coreReadModel(r.core.handle, path, nil, &model); st != statusOK {
		return nil, a.failure("read model", st)
	}
	defer a.modelFree(model)
	if err := r.reshape(model, opts.Reshape); err != nil {
		return nil, err
	}
	if kind(device) == "NPU" && a.modelIsDynamic(model) {
		inputs, err := r.modelInputs(model)
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: the NPU needs fixed dimensions and the model has %v (give them with Reshape)", ErrInput, inputs)
	}
	if st := a.coreCompile(r.core.handle, model, device, uintptr(len(pairs)), &handle, pairs...); st != statusOK {
		return nil, a.failure("compile model", st)
	}
	return r.describe(handle, nil)
}

// pairs lists keys and values for the C call.
func (o CompileOptions) pairs(device, cacheDir string) ([]any, error) {
	list := []any{keyCacheDir, cacheDir}
	add := func(key, value string) {
		if value != "" {
			list = append(list, key, value)
		}
	}
	if kind(device) != "CPU" && o.Hint == "" { // the CPU's is set on the core
		o.Hint = HintLatency
	}
	if kind(device) == "NPU" {
		add(keyNPUCompiler, npuCompilerDriver)
	}
	add(keyHint, o.Hint)
	add(keyPrecision, o.Precision) // f32 of the CPU is set on the core
	add(keyThreads, positive(o.Threads))
	add(keyStreams, positive(o.Streams))
	for key, value := range o.Properties {
		list = append(list, key, value)
	}
	if len(list) > 2*maxPairs {
		return nil, fmt.Errorf("%d properties are set, at most %d are possible", len(list)/2, maxPairs)
	}
	return list, nil
}

func positive(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// reshape gives inputs other dimensions.
func (r *Runtime) reshape(model modelHandle, inputs map[string][]int64) error {
	if len(inputs) == 0 {
		return nil
	}
	names := make([]*byte, 0, len(inputs))
	shapes := make([]cPartialShape, 0, len(inputs))
	for name, sizes := range inputs {
		rank := int64(len(sizes))
		dims := make([]cDimension, len(sizes)+1) // never empty: its address is passed
		for i, n := range sizes {
			if n >= 0 {
				dims[i] = cDimension{n, n}
			} else {
				dims[i] = cDimension{0, -1}
			}
		}
		names = append(names, cText(name))
		shapes = append(shapes, cPartialShape{rank: cDimension{rank, rank}, dims: &dims[0]})
	}
	if st := r.api.modelReshape(model, &names[0], &shapes[0], uintptr(len(names))); st != statusOK {
		return r.api.failure(fmt.Sprintf("reshape the inputs to %v", inputs), st)
	}
	return nil
}

func (r *Runtime) modelInputs(model modelHandle) ([]Port, error) {
	a := r.api
	return r.readPorts("inputs",
		func(n *uintptr) status { return a.modelInputs(model, n) },
		func(i uintptr, p *portHandle) status { return a.modelInputIndex(model, i, p) })
}
