// Package ov runs models with the OpenVINO runtime of this machine.
//
// The runtime is a folder of shared libraries that is installed beside the
// program (autobot-agent engines install openvino). It is loaded when it is
// needed and spoken to through its C API without cgo. A call goes:
//
//	rt, err := ov.Open(dir, ov.WithCacheDir(cache))       // one per process
//	model, err := rt.Compile(ctx, "model.onnx", "CPU", ov.CompileOptions{})
//	req, err := model.NewRequest()                        // one per slot
//	in, err := ov.New([]float32{1, 2, 3, 4}, 1, 4)
//	out, err := req.Infer(ctx, map[string]ov.Tensor{"x": in})
//	y, err := ov.Data[float32](out["y"])
//	...
//	rt.Close()                                            // closes all of it
//
// What the package sees to, because the library does not:
//
//   - The core is created and freed on one operating-system thread, which also
//     loads the CPU plug-in (core.go says why).
//   - CPU results are those of 32-bit floats unless CompileOptions.Precision
//     asks for less. The library's own default depends on the processor.
//   - Every input is checked for presence, type and dimensions before the
//     call: the library computes with whatever is in memory where an input is
//     missing. What it cannot know is for the caller: values in range (a token
//     id beyond the vocabulary gives plausible garbage) and that dynamic
//     dimensions of several inputs agree.
//   - After a failed inference the compiled model is given up and the next
//     Infer loads it again, from the cache when there is one. Callers see the
//     failure once and need to do nothing.
//   - A device is what was asked for: AUTO, MULTI, HETERO and BATCH are
//     refused, and Compiled.Device tells where the model really runs.
//   - Using anything after its Close is ErrClosed. Close may be called at any
//     time, from any goroutine, also during a call: it cancels what runs.
//
// Model files and blobs are mapped into memory while they are loaded. Replace
// them by renaming a new file over the old one, never by writing into it.
//
// Releases from 2024.0 on work. Those before 2026.0 crash on some damaged model
// files, which costs the process; Open warns.
//
// Files: prototypes.go is the C API, library.go finds and loads it, runtime.go
// and core.go own it, compile.go, cache.go and compiled.go load models,
// request.go and exchange.go run them, tensor.go and port.go are the data.
package ov
