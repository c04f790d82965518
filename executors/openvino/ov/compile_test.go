package ov

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autobot-fleet/autobot/executors/openvino/onnxtest"
)

func TestPortsTellTypesAndDimensions(t *testing.T) {
	r := openReal(t)
	m := onnxtest.New("ports")
	m.Input("ids", onnxtest.Int64, 1, onnxtest.Any)
	m.Input("half", onnxtest.Float16, 2, 3)
	m.Input("bytes", onnxtest.Uint8, onnxtest.Any)
	m.Input("scalar", onnxtest.Double)
	m.Output("ids2", onnxtest.Int64, 1, onnxtest.Any)
	m.Output("half2", onnxtest.Float16, 2, 3)
	m.Output("bytes2", onnxtest.Uint8, onnxtest.Any)
	m.Output("scalar2", onnxtest.Double)
	for _, name := range []string{"ids", "half", "bytes", "scalar"} {
		m.Node("Add", []string{name, name}, []string{name + "2"})
	}
	c := compile(t, r, m.Write(t, t.TempDir()), "CPU", CompileOptions{})
	if got := fmt.Sprint(c.Inputs()); got != "[ids i64 [1,?] half f16 [2,3] bytes u8 [?] scalar f64 []]" {
		t.Errorf("inputs %s", got)
	}
	if got := fmt.Sprint(c.Outputs()); got != "[ids2 i64 [1,?] half2 f16 [2,3] bytes2 u8 [?] scalar2 f64 []]" {
		t.Errorf("outputs %s", got)
	}
	out, err := request(t, c).Infer(t.Context(), map[string]Tensor{
		"ids":    tensor(t, []int64{1 << 20, -3}, 1, 2),
		"half":   tensor(t, convert([]float32{1, 2, 3, 4, 5, 0.5}, ToFloat16), 2, 3),
		"bytes":  tensor(t, []uint8{100, 2, 3}, 3),
		"scalar": tensor(t, []float64{0.25}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := data[int64](t, out["ids2"]); !cmp.Equal(got, []int64{1 << 21, -6}) || !cmp.Equal(out["ids2"].Shape(), []int64{1, 2}) {
		t.Errorf("ids2 %v %v", got, out["ids2"].Shape())
	}
	if got, err := out["half2"].Float32s(); err != nil || !cmp.Equal(got, []float32{2, 4, 6, 8, 10, 1}) {
		t.Errorf("half2 %v %v", got, err)
	}
	if got := data[uint8](t, out["bytes2"]); !cmp.Equal(got, []uint8{200, 4, 6}) {
		t.Errorf("bytes2 %v", got)
	}
	if got := data[float64](t, out["scalar2"]); !cmp.Equal(got, []float64{0.5}) || len(out["scalar2"].Shape()) != 0 {
		t.Errorf("scalar2 %v %v", got, out["scalar2"].Shape())
	}
	if c.Device() != "CPU" {
		t.Errorf("runs on %s", c.Device())
	}
}

func TestReshapeFixesDimensions(t *testing.T) {
	r := openReal(t)
	path := onnxtest.Product().Write(t, t.TempDir())
	c := compile(t, r, path, "CPU", CompileOptions{Reshape: map[string][]int64{"a": {2, 3}, "b": {3, -1}}})
	if got := fmt.Sprint(c.Inputs(), c.Outputs()); got != "[a f32 [2,3] b f32 [3,?]] [c f32 [2,?]]" {
		t.Error(got)
	}
	_, err := r.Compile(t.Context(), path, "CPU", CompileOptions{Reshape: map[string][]int64{"z": {2, 3}}})
	wantError(t, err, nil, "reshape the inputs", "status -")
	_, err = r.Compile(t.Context(), path, "CPU", CompileOptions{Reshape: map[string][]int64{"a": {2, 3}, "b": {4, 4}}})
	wantError(t, err, nil, "reshape the inputs", "status -1")
}

func TestOptionsAreChecked(t *testing.T) {
	r := openReal(t)
	path := onnxtest.AddOne(4).Write(t, t.TempDir())
	for _, tt := range []struct {
		name string
		opts CompileOptions
		says string
	}{
		{"zero value is valid", CompileOptions{}, ""},
		{"all of them", CompileOptions{Hint: HintThroughput, Threads: 1, Streams: 1, Precision: PrecisionF32}, ""},
		{"a property", CompileOptions{Properties: map[string]string{"ENABLE_CPU_PINNING": "NO"}}, ""},
		{"hint", CompileOptions{Hint: "FAST"}, "hint"},
		{"precision", CompileOptions{Precision: "f8"}, "precision"},
		{"threads", CompileOptions{Threads: -1}, "negative"},
		{"key with a path", CompileOptions{CacheKey: "../x"}, "cache key"},
		{"property of an option", CompileOptions{Properties: map[string]string{"CACHE_DIR": "/"}}, "option of its own"},
		{"compiler of the NPU", CompileOptions{Properties: map[string]string{"NPU_COMPILER_TYPE": "PLUGIN"}}, "option of its own"},
		{"NUL", CompileOptions{Properties: map[string]string{"A": "b\x00c"}}, "NUL"},
		{"dimension", CompileOptions{Reshape: map[string][]int64{"x": {-2}}}, "dimensions"},
		{"more than fit", CompileOptions{Properties: manyProperties(13)}, "at most 13"},
		{"as many as fit reach the library", CompileOptions{Properties: manyProperties(12)}, "KEY_"},
		{"unknown to the device", CompileOptions{Properties: map[string]string{"NO_SUCH": "b"}}, "NO_SUCH"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := r.Compile(t.Context(), path, "CPU", tt.opts)
			if tt.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				infer(t, request(t, c), tensor(t, make([]float32, 4), 4))
				return
			}
			wantError(t, err, nil, tt.says)
		})
	}
}

func manyProperties(n int) map[string]string {
	m := make(map[string]string, n)
	for i := range n {
		m[fmt.Sprintf("KEY_%d", i)] = "value"
	}
	return m
}

func TestOnlyDevicesThatAreThereAreTaken(t *testing.T) {
	r := openReal(t)
	path := onnxtest.AddOne(4).Write(t, t.TempDir())
	for device, says := range map[string]string{
		"AUTO": "silently", "auto": "silently", "AUTO:NPU,CPU": "not the name", "MULTI": "silently", "HETERO:NPU,CPU": "not the name",
		"BATCH": "silently", "": "empty", "CPU\x00": "NUL", "GPU": "GPU", "CPU.7": "CPU.7", "TPU": "this machine has CPU",
	} {
		_, err := r.Compile(t.Context(), path, device, CompileOptions{})
		wantError(t, err, ErrNoDevice, says)
		_, err = r.Import(t.Context(), path, device)
		wantError(t, err, ErrNoDevice, says)
	}
	_, err := r.Property("AUTO", "FULL_DEVICE_NAME")
	wantError(t, err, ErrNoDevice)
}

func TestTheNPUProbeNamesTheMissingLayer(t *testing.T) {
	dev := t.TempDir()
	r := openReal(t, func(r *Runtime) { r.devRoot = dev })
	if s := r.NPU(); s.Available || !strings.Contains(s.Reason, "intel_vpu") {
		t.Errorf("no device file: %+v", s)
	}
	_, err := r.Compile(t.Context(), onnxtest.AddOne(4).Write(t, t.TempDir()), "NPU", CompileOptions{})
	wantError(t, err, ErrNoDevice, "NPU", "intel_vpu")
	if err := os.Mkdir(filepath.Join(dev, "accel"), 0o700); err != nil {
		t.Fatal(err)
	}
	node := filepath.Join(dev, "accel", "accel0")
	if err := os.WriteFile(node, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := r.NPU(); s.Available || !strings.Contains(s.Reason, "user-mode driver") {
		t.Errorf("no driver: %+v", s)
	}
	if os.Getuid() != 0 { // root may use every file
		if err := os.Chmod(node, 0); err != nil {
			t.Fatal(err)
		}
		if s := r.NPU(); s.Available || !strings.Contains(s.Reason, "group render") {
			t.Errorf("no permission: %+v", s)
		}
	}
}

func TestBadFilesAreErrors(t *testing.T) {
	r := openReal(t)
	good := onnxtest.Slow(64, 2).Bytes()
	dir := t.TempDir()
	for _, tt := range []struct {
		name, path string
		target     error
	}{
		{"missing", filepath.Join(dir, "nothing.onnx"), fs.ErrNotExist},
		{"a folder", dir, nil},
		{"no name", "", nil},
		{"NUL in the name", "a\x00b", nil},
		{"empty", write(t, "a.onnx", nil), nil},
		{"junk", write(t, "a.onnx", []byte("this is no model")), nil},
		{"cut in the middle", write(t, "a.onnx", good[:len(good)/2]), nil},
		{"cut at the end", write(t, "a.onnx", good[:len(good)-40]), nil},
		{"junk XML", write(t, "a.xml", []byte("<net><layers><")), nil},
		{"XML without weights", write(t, "a.xml", []byte(`<?xml version="1.0"?><net name="a" version="11"><layers/><edges/></net>`)), nil},
		{"unknown kind", write(t, "a.txt", []byte("hello")), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := r.Compile(t.Context(), tt.path, "CPU", CompileOptions{})
			if err == nil && tt.name == "XML without weights" {
				c.Close() // an empty graph is valid to some releases
				return
			}
			wantError(t, err, tt.target)
			if strings.Contains(err.Error(), "Exception from") {
				t.Errorf("raw text: %v", err)
			}
		})
	}
	infer(t, request(t, compile(t, r, onnxtest.AddOne(4).Write(t, t.TempDir()), "CPU", CompileOptions{})), tensor(t, make([]float32, 4), 4))
}

func TestDamagedFilesAreErrorsSince2026(t *testing.T) {
	r := openReal(t)
	if r.Version().Major < 2026 {
		return // those crash, and say so when they are opened
	}
	_, err := r.Compile(t.Context(), write(t, "a.tflite", []byte("1234TFL3junk")), "CPU", CompileOptions{})
	wantError(t, err, nil, "status -1")
	small := onnxtest.AddOne(4).Bytes()
	for bit := 0; bit < len(small)*8; bit += 5 {
		flipped := append([]byte(nil), small...)
		flipped[bit/8] ^= 1 << (bit % 8)
		c, err := r.Compile(t.Context(), write(t, "a.onnx", flipped), "CPU", CompileOptions{})
		if err == nil { // a name, a number: still a model
			c.Close()
		}
	}
	infer(t, request(t, compile(t, r, write(t, "good.onnx", small), "CPU", CompileOptions{})), tensor(t, make([]float32, 4), 4))
}

func TestCompileHeedsItsContext(t *testing.T) {
	r := openReal(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("not wanted any more")
	cancel(why)
	_, err := r.Compile(ctx, onnxtest.AddOne(4).Write(t, t.TempDir()), "CPU", CompileOptions{})
	wantError(t, err, ErrCancelled)
	wantError(t, err, why)
	late, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	_, err = r.Compile(late, onnxtest.AddOne(4).Write(t, t.TempDir()), "CPU", CompileOptions{})
	wantError(t, err, context.DeadlineExceeded)
}
