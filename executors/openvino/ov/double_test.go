package ov

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/autobot-fleet/autobot/executors/openvino/ov/ovtest"
)

// allFreed is what the double logs when nothing was left behind.
const allFreed = "core freed: 0 models, 0 compiled, 0 requests, 0 tensors, 0 ports left"

func TestElementTypesFollowTheRelease(t *testing.T) {
	for _, tt := range []struct {
		name, build string
		old         bool
		says        string // part of the error; empty means accepted
	}{
		{"2024 has the old numbers", "2024.6.0-17404-4c0f47d2335-releases/2024/6", true, ""},
		{"2025 may have the old numbers", "2025.1.0-18503-6fec06580ab-releases/2025/1", true, ""},
		{"2025 may have the new numbers", "2025.4.1-20426-82bbf0292c5-releases/2025/4", false, ""},
		{"2026 has the new numbers", "2026.4.1-22982-e213a147257-releases/2026/4", false, ""},
		{"2026 with old numbers lies", "2026.4.1-22982-e213a147257-releases/2026/4", true, "not of the release it claims"},
		{"2024 with new numbers lies", "2024.6.0-17404-4c0f47d2335-releases/2024/6", false, "not of the release it claims"},
		{"2023 is too old", "2023.3.0-13775-ceeafaf64f3", true, "2024.0 or newer is needed"},
		{"no release at all", "custom", false, "custom"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := ovtest.NewDouble(t, ovtest.DoubleOptions{Build: tt.build, OldTypes: tt.old})
			r, err := open(d.Dir)
			if tt.says != "" {
				wantError(t, err, nil, tt.says)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c := compile(t, r, d.WriteModel(t, "in x i64 1,2", "out y f32 1,2"), "CPU", CompileOptions{})
			if c.Inputs()[0].Type != I64 || c.Outputs()[0].Type != F32 {
				t.Errorf("ports %v %v", c.Inputs(), c.Outputs())
			}
			y := infer(t, request(t, c), tensor(t, []int64{4, 7}, 1, 2))
			if !cmp.Equal(data[float32](t, y), []float32{5, 8}) {
				t.Errorf("4, 7 + 1 = %v", data[float32](t, y))
			}
			r.Close()
			d.Await(t, allFreed, 1)
		})
	}
}

func TestABrokenLibraryIsRefused(t *testing.T) {
	d := ovtest.NewDouble(t, ovtest.DoubleOptions{Without: "ov_infer_request_cancel"})
	_, err := open(d.Dir)
	wantError(t, err, ErrNotInstalled, "ov_infer_request_cancel", installHint)

	d = ovtest.NewDouble(t, ovtest.DoubleOptions{})
	d.Set(t, "no-cpu")
	_, err = open(d.Dir)
	wantError(t, err, nil, "CPU plug-in", "libopenvino_intel_cpu_plugin.so", installHint)
	d.Await(t, allFreed, 1)

	junk := filepath.Dir(write(t, "libopenvino_c.so.2641", []byte("no library")))
	_, err = open(junk)
	wantError(t, err, ErrNotInstalled, "libopenvino_c.so.2641")
}

func TestTheNewestOfTwoLibrariesIsTaken(t *testing.T) {
	d := ovtest.NewDouble(t, ovtest.DoubleOptions{})
	for _, other := range []string{"libopenvino_c.so.2460", "libopenvino_c.so"} {
		if err := os.WriteFile(filepath.Join(d.Dir, other), []byte("older"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var warnings []string
	r, err := open(d.Dir, WithWarnings(func(s string) { warnings = append(warnings, s) }))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if filepath.Base(r.Library()) != "libopenvino_c.so.2641" || len(warnings) != 2 || !strings.Contains(warnings[0], "libopenvino_c.so.2460 is not used") {
		t.Errorf("%s, warnings %q", r.Library(), warnings)
	}
}

func TestAnNPUIsUsedByItsDriver(t *testing.T) {
	d := ovtest.NewDouble(t, ovtest.DoubleOptions{NPU: true})
	cache := t.TempDir()
	r := openDir(t, d.Dir, WithCacheDir(cache))
	if s := r.NPU(); !s.Available || s.Reason != "" || s.Driver != "1688" {
		t.Fatalf("NPU %+v", s)
	}
	c := compile(t, r, d.WriteModel(t, "in x f32 1,4", "out y f32 1,4"), "NPU", CompileOptions{Properties: map[string]string{"NPU_TURBO": "YES"}})
	if c.Device() != "NPU" {
		t.Errorf("runs on %s", c.Device())
	}
	infer(t, request(t, c), tensor(t, make([]float32, 4), 1, 4))
	log := d.Log(t)
	for _, want := range []string{
		"set NPU NPU_COMPILER_TYPE=DRIVER", "set CPU INFERENCE_PRECISION_HINT=f32",
		"compile NPU NPU_COMPILER_TYPE=DRIVER", "compile NPU PERFORMANCE_HINT=LATENCY", "compile NPU NPU_TURBO=YES",
	} {
		if !slices.Contains(log, want) {
			t.Errorf("not passed: %s in %q", want, log)
		}
	}
	if !slices.ContainsFunc(log, func(l string) bool {
		return strings.HasPrefix(l, "compile NPU CACHE_DIR="+cache+"/2026.4.1-npu-1688/")
	}) {
		t.Errorf("cache folder without the driver's version: %q", log)
	}
	dynamic := d.WriteModel(t, "in x f32 1,?", "out y f32 1,?")
	_, err := r.Compile(t.Context(), dynamic, "NPU", CompileOptions{})
	wantError(t, err, ErrInput, "fixed dimensions", "x f32 [1,?]")
	c = compile(t, r, dynamic, "NPU", CompileOptions{Reshape: map[string][]int64{"x": {1, 3}}})
	if c.Inputs()[0].String() != "x f32 [1,3]" {
		t.Errorf("inputs %v", c.Inputs())
	}
	r.Close()
	d.Await(t, allFreed, 1)
}

func TestWithoutItsPlugInTheNPUIsMissing(t *testing.T) {
	d := ovtest.NewDouble(t, ovtest.DoubleOptions{})
	r := openDir(t, d.Dir)
	if s := r.NPU(); s.Available || !strings.Contains(s.Reason, npuPlugin) || !strings.Contains(s.Reason, installHint) {
		t.Errorf("NPU %+v", s)
	}
}

func TestADeviceThatIsLostAndComesBack(t *testing.T) {
	d := ovtest.NewDouble(t, ovtest.DoubleOptions{NPU: true})
	r := openDir(t, d.Dir)
	c := compile(t, r, d.WriteModel(t, "in x f32 2", "out y f32 2"), "NPU", CompileOptions{})
	req, other := request(t, c), request(t, c)
	x := tensor(t, []float32{1, 2}, 2)
	infer(t, req, x)
	infer(t, other, x)
	d.Set(t, "lost")
	for range 3 {
		_, err := req.Infer(t.Context(), map[string]Tensor{"x": x})
		var refused *Error
		if !errors.As(err, &refused) || refused.Text != "device lost" {
			t.Fatalf("lost device: %v", err)
		}
	}
	d.Clear(t, "lost")
	for _, q := range []*Request{req, other} {
		if got := data[float32](t, infer(t, q, x)); !cmp.Equal(got, []float32{2, 3}) {
			t.Errorf("after the device came back: %v", got)
		}
	}
	r.Close()
	d.Await(t, allFreed, 1)
}

func TestASlowCompilationIsLeftBehindAndWaitedForByClose(t *testing.T) {
	d := ovtest.NewDouble(t, ovtest.DoubleOptions{})
	r := openDir(t, d.Dir)
	path := d.WriteModel(t, "in x f32 2", "out y f32 2")
	d.Set(t, "hold-compile")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		d.Await(t, "compiling", 1)
		cancel()
	}()
	_, err := r.Compile(ctx, path, "CPU", CompileOptions{})
	wantError(t, err, ErrCancelled)
	wantError(t, err, context.Canceled)

	closed := make(chan struct{})
	go func() {
		defer close(closed)
		r.Close()
	}()
	<-r.gate.closing
	select {
	case <-closed:
		t.Error("Close did not wait for the compilation")
	default:
	}
	d.Clear(t, "hold-compile")
	await(t, "Close", closed)
	d.Await(t, allFreed, 1)
}

func TestCloseEndsACompileAndAnInferenceThatWait(t *testing.T) {
	d := ovtest.NewDouble(t, ovtest.DoubleOptions{})
	r := openDir(t, d.Dir)
	c := compile(t, r, d.WriteModel(t, "in x f32 2", "out y f32 2"), "CPU", CompileOptions{})
	req := request(t, c)
	d.Set(t, "hold-infer")
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err = req.Infer(context.Background(), map[string]Tensor{"x": tensor(t, []float32{1, 2}, 2)})
	}()
	d.Await(t, "inferring", 1)
	r.Close()
	await(t, "the inference", done)
	wantError(t, err, ErrClosed)
	d.Await(t, allFreed, 1)
}

func TestCancelledInferencesLeaveTheRequestUsable(t *testing.T) {
	d := ovtest.NewDouble(t, ovtest.DoubleOptions{})
	r := openDir(t, d.Dir)
	c := compile(t, r, d.WriteModel(t, "in x f32 2", "out y f32 2"), "CPU", CompileOptions{})
	req := request(t, c)
	x := map[string]Tensor{"x": tensor(t, []float32{1, 2}, 2)}
	why := errors.New("not wanted any more")
	for i := range 3 {
		d.Set(t, "hold-infer")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			d.Await(t, "inferring", i+1)
			cancel(why)
		}()
		_, err := req.Infer(ctx, x)
		wantError(t, err, ErrCancelled)
		wantError(t, err, why)
		d.Clear(t, "hold-infer")
		infer(t, req, x["x"])
	}
	if c.Reloads() != 0 {
		t.Error("the model was loaded again")
	}
}

func TestAFailureOfAnotherRequestIsNotPassedOn(t *testing.T) {
	d := ovtest.NewDouble(t, ovtest.DoubleOptions{})
	r := openDir(t, d.Dir)
	c := compile(t, r, d.WriteModel(t, "in x f32 2", "out y f32 2"), "CPU", CompileOptions{})
	x := map[string]Tensor{"x": tensor(t, []float32{1, 2}, 2)}
	req := request(t, c)
	infer(t, req, x["x"])
	// As if another request had just broken the object this one runs on.
	d.Set(t, "hold-infer")
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		_, err = req.Infer(context.Background(), x)
	}()
	d.Await(t, "inferring", 1)
	c.mu.Lock()
	c.cur.bad.Store(true)
	c.mu.Unlock()
	d.Set(t, "lose-once")
	d.Clear(t, "hold-infer")
	await(t, "the inference", done)
	if err != nil {
		t.Errorf("the blameless request got %v", err)
	}
	if c.Reloads() != 1 {
		t.Errorf("loaded again %d times", c.Reloads())
	}
}

func TestATensorThatLiesAboutItsSizeIsRefused(t *testing.T) {
	d := ovtest.NewDouble(t, ovtest.DoubleOptions{})
	r := openDir(t, d.Dir)
	req := request(t, compile(t, r, d.WriteModel(t, "in x f32 2", "out y f32 2"), "CPU", CompileOptions{}))
	d.Set(t, "lie-about-size")
	_, err := req.Infer(t.Context(), map[string]Tensor{"x": tensor(t, []float32{1, 2}, 2)})
	wantError(t, err, nil, "12 bytes instead of 8")
}

func TestTypesThatCannotBeReadAreErrors(t *testing.T) {
	d := ovtest.NewDouble(t, ovtest.DoubleOptions{})
	r := openDir(t, d.Dir)
	c := compile(t, r, d.WriteModel(t, "in x f32 2", "out y u4 2"), "CPU", CompileOptions{})
	_, err := request(t, c).Infer(t.Context(), map[string]Tensor{"x": tensor(t, []float32{1, 2}, 2)})
	wantError(t, err, nil, "y u4 [2]", "cannot be of type u4")
}

func TestNothingIsLeftBehindUnderLoad(t *testing.T) {
	d := ovtest.NewDouble(t, ovtest.DoubleOptions{})
	r := openDir(t, d.Dir)
	path := d.WriteModel(t, "in x f32 ?", "out y f32 ?")
	c := compile(t, r, path, "CPU", CompileOptions{})
	var wg sync.WaitGroup
	for g := range 6 {
		req := request(t, c)
		wg.Go(func() {
			for i := range 60 {
				n := int64(1 + (g+i)%5)
				if _, err := req.Infer(t.Context(), map[string]Tensor{"x": tensor(t, make([]float32, n), n)}); err != nil && !errors.As(err, new(*Error)) {
					t.Error(err)
				}
				if i%20 == 10 {
					c.mu.Lock()
					if c.cur != nil {
						c.cur.bad.Store(true)
					}
					c.mu.Unlock()
				}
			}
			if g%2 == 0 {
				req.Close()
			}
		})
	}
	wg.Wait()
	if c.Reloads() == 0 {
		t.Error("the model was never loaded again")
	}
	r.Close()
	d.Await(t, allFreed, 1)
}
