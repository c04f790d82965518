package ov

import (
	"bytes"
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autobot-fleet/autobot/executors/openvino/onnxtest"
)

func TestInputsAreCheckedBeforeTheCall(t *testing.T) {
	r := openReal(t)
	c := compile(t, r, onnxtest.Product().Write(t, t.TempDir()), "CPU", CompileOptions{Reshape: map[string][]int64{"a": {2, 3}, "b": {3, -1}}})
	req := request(t, c)
	a, b := tensor(t, []float32{1, 0, 0, 0, 1, 0}, 2, 3), tensor(t, []float32{1, 2, 3}, 3, 1)
	for _, tt := range []struct {
		name string
		in   map[string]Tensor
		says string
	}{
		{"none at all", nil, "a f32 [2,3] is missing"},
		{"one missing", map[string]Tensor{"a": a}, "b f32 [3,?] is missing"},
		{"one too many", map[string]Tensor{"a": a, "b": b, "c": b}, `no input "c"`},
		{"empty tensor", map[string]Tensor{"a": a, "b": {}}, "empty"},
		{"wrong type", map[string]Tensor{"a": a, "b": tensor(t, []int64{1, 2, 3}, 3, 1)}, "b f32 [3,?] got i64"},
		{"wrong dimension", map[string]Tensor{"a": a, "b": tensor(t, []float32{1, 2}, 2, 1)}, "got shape [2 1]"},
		{"wrong rank", map[string]Tensor{"a": a, "b": tensor(t, []float32{1, 2, 3}, 3)}, "got shape [3]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := req.Infer(t.Context(), tt.in)
			wantError(t, err, ErrInput, tt.says)
		})
	}
	out, err := req.Infer(t.Context(), map[string]Tensor{"a": a, "b": b})
	if err != nil || !cmp.Equal(data[float32](t, out["c"]), []float32{1, 2}) || c.Reloads() != 0 {
		t.Errorf("afterwards: %v %v, %d reloads", out, err, c.Reloads())
	}
}

func TestNumbersThatAreNoneComeBack(t *testing.T) {
	r := openReal(t)
	req := request(t, compile(t, r, onnxtest.Log(3).Write(t, t.TempDir()), "CPU", CompileOptions{}))
	got := data[float32](t, infer(t, req, tensor(t, []float32{-1, 0, 1}, 3)))
	if !math.IsNaN(float64(got[0])) || !math.IsInf(float64(got[1]), -1) || got[2] != 0 {
		t.Errorf("ln(-1, 0, 1) = %v", got)
	}
}

func TestShapesMayChangeBetweenInferences(t *testing.T) {
	r := openReal(t)
	req := request(t, compile(t, r, onnxtest.Mean().Write(t, t.TempDir()), "CPU", CompileOptions{}))
	if y := infer(t, req, tensor(t, []float32{}, 0, 5)); y.Len() != 0 || !cmp.Equal(y.Shape(), []int64{0}) {
		t.Errorf("no rows gave %v", y)
	}
	for _, n := range []int64{3, 1, 100, 3, 3, 7} {
		values := make([]float32, 2*n)
		for i := range values {
			values[i] = float32(int64(i) / n) // row 0 is 0, row 1 is 1
		}
		y := infer(t, req, tensor(t, values, 2, n))
		if !cmp.Equal(data[float32](t, y), []float32{0, 1}) || !cmp.Equal(y.Shape(), []int64{2}) {
			t.Errorf("[2,%d]: %v %v", n, data[float32](t, y), y.Shape())
		}
	}
}

func TestOutputsAreCopies(t *testing.T) {
	r := openReal(t)
	req := request(t, compile(t, r, onnxtest.AddOne(2).Write(t, t.TempDir()), "CPU", CompileOptions{}))
	first := data[float32](t, infer(t, req, tensor(t, []float32{1, 2}, 2)))
	infer(t, req, tensor(t, []float32{7, 8}, 2))
	if !cmp.Equal(first, []float32{2, 3}) {
		t.Errorf("the first result became %v", first)
	}
}

func TestAFailedInferenceLoadsTheModelAgain(t *testing.T) {
	r := openReal(t, WithCacheDir(t.TempDir()))
	c := compile(t, r, onnxtest.Product().Write(t, t.TempDir()), "CPU", CompileOptions{})
	req, idle := request(t, c), request(t, c)
	good := map[string]Tensor{"a": tensor(t, []float32{1, 2}, 1, 2), "b": tensor(t, []float32{3, 4}, 2, 1)}
	bad := map[string]Tensor{"a": good["a"], "b": tensor(t, []float32{3, 4, 5}, 3, 1)}
	for round := range 3 {
		for _, q := range []*Request{req, idle} {
			out, err := q.Infer(t.Context(), good)
			if err != nil || data[float32](t, out["c"])[0] != 11 {
				t.Fatalf("round %d: %v %v", round, out, err)
			}
		}
		if c.Reloads() != round {
			t.Errorf("round %d: loaded again %d times", round, c.Reloads())
		}
		_, err := req.Infer(t.Context(), bad)
		var refused *Error
		if !errors.As(err, &refused) || errors.Is(err, ErrInput) {
			t.Fatalf("shapes that do not agree: %v", err)
		}
	}
	if !c.FromCache() {
		t.Error("the model was not loaded from the cache")
	}
}

func TestAnInferenceIsCancelledWhileItRuns(t *testing.T) {
	r := openReal(t)
	// Seconds of work, of which a small part is done.
	c := compile(t, r, onnxtest.Slow(1024, 200).Write(t, t.TempDir()), "CPU", CompileOptions{})
	req := request(t, c)
	x := map[string]Tensor{"x": tensor(t, make([]float32, 1024*1024), 1024, 1024)}
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 120*time.Millisecond)
		start := time.Now()
		_, err := req.Infer(ctx, x)
		cancel()
		wantError(t, err, ErrCancelled)
		wantError(t, err, context.DeadlineExceeded)
		t.Logf("ended after %v", time.Since(start))
	}
	if c.Reloads() != 0 {
		t.Error("a cancelled inference made the model load again")
	}
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		_, err = req.Infer(context.Background(), x)
	}()
	other, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, busy := req.Infer(other, x)
	wantError(t, busy, ErrCancelled)
	req.Close()
	await(t, "an inference whose request was closed", done)
	wantError(t, err, ErrClosed)
}

func TestACancelledRequestCanBeUsedAgain(t *testing.T) {
	r := openReal(t)
	c := compile(t, r, onnxtest.Slow(512, 40).Write(t, t.TempDir()), "CPU", CompileOptions{})
	req := request(t, c)
	x := tensor(t, make([]float32, 512*512), 512, 512)
	for i := range data[float32](t, x) {
		data[float32](t, x)[i] = float32(i % 5)
	}
	want := infer(t, req, x)
	cancelled := 0
	for i := range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*10*time.Millisecond)
		if _, err := req.Infer(ctx, map[string]Tensor{"x": x}); err != nil {
			wantError(t, err, ErrCancelled)
			cancelled++
		}
		cancel()
		if got := infer(t, req, x); !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Fatalf("other numbers after %d cancelled inferences", cancelled)
		}
	}
	if cancelled == 0 {
		t.Error("nothing was cancelled")
	}
}

func TestCallsOfOneRequestWaitForEachOther(t *testing.T) {
	r := openReal(t)
	req := request(t, compile(t, r, onnxtest.AddOne(1).Write(t, t.TempDir()), "CPU", CompileOptions{}))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				v := float32(g*1000 + i)
				if got := data[float32](t, infer(t, req, tensor(t, []float32{v}, 1))); got[0] != v+1 {
					t.Errorf("%v + 1 = %v", v, got[0])
				}
			}
		})
	}
	wg.Wait()
}
