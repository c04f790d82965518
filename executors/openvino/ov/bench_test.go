package ov

import (
	"testing"
	"unsafe"

	"github.com/autobot-fleet/autobot/executors/openvino/onnxtest"
)

// What this package adds to one inference is the difference of the first two.

func BenchmarkInfer(b *testing.B) {
	r := openReal(b)
	req := request(b, compile(b, r, onnxtest.AddOne(1, 1024).Write(b, b.TempDir()), "CPU", CompileOptions{}))
	x := map[string]Tensor{"x": tensor(b, make([]float32, 1024), 1, 1024)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := req.Infer(b.Context(), x); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBareCalls makes the same C calls without any check or copy of ours
// beyond what an inference needs.
func BenchmarkBareCalls(b *testing.B) {
	r := openReal(b)
	c := compile(b, r, onnxtest.AddOne(1, 1024).Write(b, b.TempDir()), "CPU", CompileOptions{})
	a, in, out := r.api, make([]byte, 4096), make([]byte, 4096)
	var req requestHandle
	var x tensorHandle
	var data unsafe.Pointer
	dims := []int64{1, 1024}
	must := func(st status) {
		if st != statusOK {
			b.Fatal(a.failure("call", st))
		}
	}
	must(a.compiledRequest(c.cur.handle, &req))
	must(a.tensorCreate(r.table.code(F32), cShape{2, &dims[0]}, &x))
	must(a.requestSetInput(req, 0, x))
	must(a.tensorData(x, &data))
	b.ReportAllocs()
	for b.Loop() {
		copy(unsafe.Slice((*byte)(data), 4096), in)
		must(a.requestStart(req))
		for a.requestWaitFor(req, pollMilliseconds) == statusNotReady {
		}
		var y tensorHandle
		var got unsafe.Pointer
		must(a.requestOutput(req, 0, &y))
		must(a.tensorData(y, &got))
		copy(out, unsafe.Slice((*byte)(got), 4096))
		a.tensorFree(y)
	}
	a.tensorFree(x)
	a.requestFree(req)
}

func BenchmarkCompileFromCache(b *testing.B) {
	r := openReal(b, WithCacheDir(b.TempDir()))
	path := onnxtest.Slow(512, 4).Write(b, b.TempDir())
	compile(b, r, path, "CPU", CompileOptions{}).Close()
	for b.Loop() {
		compile(b, r, path, "CPU", CompileOptions{}).Close()
	}
}
