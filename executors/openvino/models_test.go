package openvino

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/onnxtest"
	"github.com/autobot-fleet/autobot/executors/openvino/ov/ovtest"
)

// large is a model that takes about 40 MiB by the estimate.
func large(name string) (engines.Card, map[string][]byte) {
	m := onnxtest.New(name)
	m.Input("x", onnxtest.Float, 1, 4)
	m.Output("y", onnxtest.Float, 1, 4)
	m.Floats("one", []int64{1}, 1)
	m.Floats("unused", []int64{5 << 20}, make([]float32, 5<<20)...)
	m.Node("Add", []string{"x", "one"}, []string{"y"})
	return engines.Card{Name: name, Task: engines.TaskInfer}, map[string][]byte{"model.onnx": m.Bytes()}
}

func shelfOfLarge(t *testing.T, names ...string) string {
	t.Helper()
	shelf := t.TempDir()
	for _, name := range names {
		card, files := large(name)
		addModel(t, shelf, card, files)
	}
	return shelf
}

func (m *models) names() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := map[string]bool{}
	for k := range m.loaded {
		names[k.name] = true
	}
	return names
}

func TestTheModelUsedLongestAgoMakesRoom(t *testing.T) {
	t.Parallel()
	e := on(t, shelfOfLarge(t, "a", "b", "c"), func(s *Settings) { s.MaxLoadedMB = 100 })
	for _, name := range []string{"a", "b", "a", "c"} {
		take(t, e, name).release()
	}
	if got := e.models.names(); !got["a"] || got["b"] || !got["c"] {
		t.Errorf("loaded: %v", got)
	}
}

func TestModelsInUseAreNotUnloaded(t *testing.T) {
	t.Parallel()
	e := on(t, shelfOfLarge(t, "a", "b", "c"), func(s *Settings) { s.MaxLoadedMB = 100 })
	a, b := take(t, e, "a"), take(t, e, "b")
	err := fails(t, e, "openvino", obj{"op": "load_model", "model": "c", "device": "CPU"}, executors.CodeResourceExhausted, "models in use take about 80 of 100 MiB", "max_loaded_mb")
	if !err.Retryable || err.Delay == 0 {
		t.Errorf("%+v", err)
	}
	// One that is unloaded while it is used still takes its memory.
	if n := e.models.unload("a", ""); n != 1 {
		t.Errorf("%d unloaded", n)
	}
	fails(t, e, "openvino", obj{"op": "load_model", "model": "c", "device": "CPU"}, executors.CodeResourceExhausted)
	var out inferred
	do(t, e, "openvino", obj{"model": "b", "device": "CPU", "inputs": four}, &out)
	if _, err := a.run(t.Context(), nil); err == nil {
		t.Error("no input is accepted")
	}
	a.release()
	a.release() // once is enough
	take(t, e, "c").release()
	b.release()
}

func TestAModelLargerThanAllMemoryIsRefusedForGood(t *testing.T) {
	t.Parallel()
	shelf := t.TempDir()
	card, files := large("a")
	addModel(t, shelf, card, files)
	e := on(t, shelf, nil)
	e.models.settings.MaxLoadedMB = 10
	if err := fails(t, e, "openvino", obj{"op": "load_model", "model": "a", "device": "CPU"}, executors.CodeResourceExhausted, "max_loaded_mb"); err.Retryable {
		t.Error("it will never fit")
	}
}

func TestIdleModelsAreUnloaded(t *testing.T) {
	t.Parallel()
	e := on(t, shelfOfLarge(t, "a", "b"), func(s *Settings) { s.IdleUnload = time.Hour })
	used := take(t, e, "a")
	take(t, e, "b").release()
	e.models.sweep(time.Now().Add(59 * time.Minute))
	if got := e.models.names(); !got["a"] || !got["b"] {
		t.Errorf("before its time: %v", got)
	}
	e.models.sweep(time.Now().Add(61 * time.Minute))
	if got := e.models.names(); !got["a"] || got["b"] {
		t.Errorf("loaded: %v", got)
	}
	used.release()
}

func TestAReplacedModelIsLoadedAnew(t *testing.T) {
	t.Parallel()
	shelf := t.TempDir()
	add := func(n float32) {
		m := onnxtest.New("sum")
		m.Input("x", onnxtest.Float, 1, 4)
		m.Output("y", onnxtest.Float, 1, 4)
		m.Floats("n", []int64{1}, n)
		m.Node("Add", []string{"x", "n"}, []string{"y"})
		addModel(t, shelf, engines.Card{Name: "sum", Task: engines.TaskInfer}, map[string][]byte{"model.onnx": m.Bytes()})
	}
	e := on(t, shelf, nil)
	for _, n := range []float32{1, 5} {
		add(n)
		var out inferred
		do(t, e, "openvino", obj{"model": "sum", "device": "CPU", "inputs": four}, &out)
		if got := out.Outputs["y"].Data[0]; got != float64(1+n) {
			t.Errorf("1 + %g = %g", n, got)
		}
	}
	e.models.mu.Lock()
	defer e.models.mu.Unlock()
	if len(e.models.loaded) != 1 {
		t.Errorf("%d are loaded, the replaced one is of no use", len(e.models.loaded))
	}
}

// The double holds a compilation for as long as a test wants.
func TestOneLoadingServesAllWhoWait(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	m := doubled(t, ovtest.DoubleOptions{}, nil)
	m.double.Set(t, "hold-compile")
	ctx, cancel := context.WithCancel(t.Context())
	starter := make(chan error, 1)
	w := wantOf(t, m.Executor, "plus-one", "CPU")
	quiet := func(executors.Progress) {}
	go func() {
		_, err := m.models.acquire(ctx, w, quiet)
		starter <- err
	}()
	m.double.Await(t, "compiling", 1)
	var wg sync.WaitGroup
	joined := make(chan struct{}, 8)
	for range 8 {
		wg.Go(func() {
			l, err := m.models.acquire(t.Context(), w, func(executors.Progress) {
				select {
				case joined <- struct{}{}:
				default:
				}
			})
			if err != nil {
				t.Error(err)
				return
			}
			defer l.release()
			if m.models.unload("plus-one", "") > 1 { // while others use it or are about to
				t.Error("there are two")
			}
		})
	}
	for range 8 {
		<-joined
	}
	cancel()
	if err := <-starter; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled starter: %v", err)
	}
	m.double.Clear(t, "hold-compile")
	wg.Wait()
	if n := count(m.double.Log(t), "compiling"); n != 1 {
		t.Errorf("%d compilations", n)
	}
	if m.models.leaving != 0 {
		t.Errorf("%d bytes are said to be in use by nobody", m.models.leaving)
	}
}

func TestCloseDuringALoading(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	m := doubled(t, ovtest.DoubleOptions{}, nil)
	m.double.Set(t, "hold-compile")
	failed := make(chan error, 1)
	go func() {
		_, err := m.models.acquire(t.Context(), wantOf(t, m.Executor, "plus-one", "CPU"), func(executors.Progress) {})
		failed <- err
	}()
	m.double.Await(t, "compiling", 1)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = m.Close()
	}()
	if err := <-failed; err == nil {
		t.Error("a model of a closed executor")
	}
	m.double.Clear(t, "hold-compile")
	<-closed
	m.double.Await(t, "core freed: 0 models, 0 compiled, 0 requests, 0 tensors, 0 ports left", 1)
	fails(t, m.Executor, "npu_inference", obj{"model": "plus-one", "inputs": four}, executors.CodeEngineUnavailable, "closing")
}

// What tasks, unloads, sweeps and losses do at the same time has to leave
// nothing behind; the double ends the process at a double free.
func TestModelsSurviveACrowd(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	m := doubled(t, withNPU, func(s *Settings) { s.Slots = 2 })
	stop := make(chan struct{})
	var wg, noise sync.WaitGroup
	for _, disturb := range []func(){
		func() { m.models.unload("plus-one", "") },
		func() { m.models.sweep(time.Now().Add(time.Hour)) },
		func() { m.models.forget("NPU") },
	} {
		noise.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					disturb()
				}
			}
		})
	}
	for i := range 8 {
		wg.Go(func() {
			for n := range 20 {
				device := []string{"NPU", "CPU"}[(i+n)%2]
				ctx, cancel := context.WithCancel(t.Context())
				if n%5 == 4 {
					cancel()
				}
				payload := obj{"model": "plus-one", "device": device, "inputs": four}
				if i%2 == 0 {
					payload = obj{"op": "embed", "model": "texts", "device": device, "texts": []string{"hello", "world again"}}
				}
				r := run(ctx, t, m.Executor, "npu_inference", payload, nil)
				if r.err != nil && r.err.Code != executors.CodeCancelled {
					t.Errorf("%v", r.err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	close(stop)
	noise.Wait()
	if m.models.leaving != 0 {
		t.Errorf("%d bytes are said to be in use by nobody", m.models.leaving)
	}
	_ = m.Close()
	m.double.Await(t, "core freed: 0 models, 0 compiled, 0 requests, 0 tensors, 0 ports left", 1)
}

func TestAModelThatIsReplacedWhileItIsCompiledIsNotMistaken(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	m := doubled(t, ovtest.DoubleOptions{}, nil)
	m.double.Set(t, "hold-compile")
	failed := make(chan ran, 1)
	go func() {
		failed <- run(t.Context(), t, m.Executor, "npu_inference", obj{"model": "plus-one", "device": "CPU", "inputs": four}, nil)
	}()
	m.double.Await(t, "compiling", 1)
	addModel(t, m.shelf, engines.Card{Name: "plus-one", Task: engines.TaskInfer, Revision: "r2"}, map[string][]byte{"model.onnx": []byte("in x f32 1,4\nout z f32 1,4\n")})
	m.double.Clear(t, "hold-compile")
	if r := <-failed; r.err == nil || r.err.Code != executors.CodeModelLoadFailed || !r.err.Retryable {
		t.Errorf("%v", r.err)
	}
	var out inferred
	do(t, m.Executor, "npu_inference", obj{"model": "plus-one", "device": "CPU", "inputs": four}, &out)
	if out.Outputs["z"].Data == nil {
		t.Errorf("%+v", out)
	}
}
