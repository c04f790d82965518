package openvino

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/openvino/ov/ovtest"
)

var withNPU = ovtest.DoubleOptions{NPU: true}

// four is the input of the model plus-one.
var four = obj{"x": obj{"data": [][]float32{{1, 2, 3, 4}}}}

// plusOne runs the model plus-one and checks its answer.
func plusOne(t *testing.T, m *machine, device string) (string, ran) {
	t.Helper()
	var out inferred
	r := do(t, m.Executor, "npu_inference", obj{"model": "plus-one", "device": device, "inputs": four}, &out)
	if !slices.Equal(out.Outputs["y"].Data, []float64{2, 3, 4, 5}) {
		t.Errorf("on %s: %+v", out.Device, out)
	}
	return out.Device, r
}

func TestAutoTakesTheNPUWhereThereIsOne(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	m := doubled(t, withNPU, nil)
	for _, asked := range []string{"", "AUTO", "NPU"} {
		device, r := plusOne(t, m, asked)
		if device != "NPU" || len(r.result.Warnings) > 0 {
			t.Errorf("%q: ran on %s, warnings %v", asked, device, r.result.Warnings)
		}
	}
	if device, _ := plusOne(t, m, "CPU"); device != "CPU" {
		t.Errorf("the CPU was asked for, it ran on %s", device)
	}
	fails(t, m.Executor, "npu_inference", obj{"model": "plus-one", "device": "GPU", "inputs": four}, executors.CodeDeviceUnavailable, "present: CPU, NPU")
	var info struct {
		Selected string       `json:"selected"`
		Devices  []deviceInfo `json:"devices"`
	}
	do(t, m.Executor, "openvino", obj{"op": "device_info"}, &info)
	if info.Selected != "NPU" || !slices.ContainsFunc(info.Devices, func(d deviceInfo) bool { return d.ID == "NPU" && d.Driver == "1688" && d.Available }) {
		t.Errorf("%+v", info)
	}
	var speed struct {
		Device    string    `json:"device"`
		Agreement agreement `json:"agreement"`
	}
	do(t, m.Executor, "openvino", obj{"op": "benchmark", "model": "plus-one", "runs": 3}, &speed)
	if speed.Device != "NPU" || speed.Agreement.CosineMin < 0.999 || speed.Agreement.Reference != "CPU" {
		t.Errorf("%+v", speed)
	}
}

func TestWithoutAnNPUAutoTakesTheCPUWithoutAWord(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	m := doubled(t, ovtest.DoubleOptions{}, nil)
	if device, r := plusOne(t, m, "AUTO"); device != "CPU" || len(r.result.Warnings) > 0 {
		t.Errorf("ran on %s, warnings %v", device, r.result.Warnings)
	}
	m.models.devices.remember([]string{"NPU"}) // there was one
	if _, r := plusOne(t, m, "AUTO"); !strings.Contains(r.warned("DEVICE_FALLBACK"), "NPU is not present; used CPU") {
		t.Errorf("a device that went away: %v", r.result.Warnings)
	}
}

func TestADeviceThatSomebodyConfiguredIsMissed(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	m := doubled(t, ovtest.DoubleOptions{}, func(s *Settings) { s.Devices = []string{"NPU", "CPU"} })
	device, r := plusOne(t, m, "AUTO")
	if w := r.warned("DEVICE_FALLBACK"); device != "CPU" || !strings.Contains(w, "NPU is not present") || !strings.Contains(w, "used CPU") {
		t.Errorf("ran on %s, warning %q", device, w)
	}
	err := fails(t, m.Executor, "npu_inference", obj{"model": "plus-one", "device": "NPU", "inputs": four}, executors.CodeDeviceUnavailable, "present: CPU")
	if !err.Retryable || err.Field != "device" || err.Hint == "" {
		t.Errorf("%+v", err)
	}
}

func TestADeviceThatRunsElsewhereIsNotBelieved(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	m := doubled(t, withNPU, nil)
	m.double.Set(t, "stray")
	fails(t, m.Executor, "npu_inference", obj{"model": "plus-one", "device": "NPU", "inputs": four}, executors.CodeDeviceUnavailable, "runs model plus-one on CPU instead")
	device, r := plusOne(t, m, "AUTO")
	if w := r.warned("DEVICE_FALLBACK"); device != "CPU" || !strings.Contains(w, "on CPU instead") {
		t.Errorf("ran on %s, warning %q", device, w)
	}
}

func TestALostDeviceRestsAndComesBack(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	m := doubled(t, withNPU, nil)
	clock := time.Now()
	m.models.devices.now = func() time.Time { return clock }
	plusOne(t, m, "NPU")
	m.double.Set(t, "lose-once")
	err := fails(t, m.Executor, "npu_inference", obj{"model": "plus-one", "inputs": four}, executors.CodeDeviceLost, "NPU", "driver 1688", "rests for 1m0s")
	if !err.Retryable {
		t.Error("a lost device is final")
	}
	device, r := plusOne(t, m, "AUTO")
	if w := r.warned("DEVICE_FALLBACK"); device != "CPU" || !strings.Contains(w, "NPU was lost and rests for 60 s more") {
		t.Errorf("while the NPU rests: %s, %q", device, w)
	}
	fails(t, m.Executor, "npu_inference", obj{"model": "plus-one", "device": "NPU", "inputs": four}, executors.CodeDeviceUnavailable, "was lost")
	clock = clock.Add(time.Minute)
	if device, r := plusOne(t, m, "AUTO"); device != "NPU" || len(r.result.Warnings) > 0 {
		t.Errorf("after the rest: %s, %v", device, r.result.Warnings)
	}
	m.double.Set(t, "lost")
	do(t, m.Executor, "openvino", obj{"op": "unload_model", "model": "plus-one"}, nil)
	fails(t, m.Executor, "npu_inference", obj{"model": "plus-one", "device": "NPU", "inputs": four}, executors.CodeDeviceLost)
}

func TestADeviceThatComputesWronglyIsNotTrusted(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	m := doubled(t, withNPU, nil)
	m.double.Set(t, "npu-wrong")
	for range 2 {
		err := fails(t, m.Executor, "npu_inference", obj{"model": "plus-one", "device": "NPU", "inputs": four}, executors.CodeNumericMismatch, "computes model plus-one wrongly")
		if !err.Retryable {
			t.Error("another worker's device may be right")
		}
	}
	m.double.Clear(t, "npu-wrong")
	device, r := plusOne(t, m, "AUTO") // remembered: it is not tried again
	if w := r.warned("DEVICE_FALLBACK"); device != "CPU" || !strings.Contains(w, "wrongly") {
		t.Errorf("ran on %s, warning %q", device, w)
	}
	var out embedOutput
	do(t, m.Executor, "embedding", obj{"text": "hello", "model": "texts", "normalize": false}, &out)
	if out.Device != "NPU" {
		t.Errorf("another model ran on %s", out.Device)
	}
}

func TestTextsArePaddedToTheSmallestShapeOfTheNPU(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	m := doubled(t, withNPU, nil)
	texts := []string{"hello", strings.Repeat("world ", 62), strings.Repeat("again ", 63), strings.Repeat("hello ", 254), "world"}
	payload := obj{"texts": texts, "model": "texts", "normalize": false, "device": "NPU"}
	var npu, cpu embedOutput
	r := do(t, m.Executor, "embedding", payload, &npu)
	payload["device"] = "CPU"
	do(t, m.Executor, "embedding", payload, &cpu)
	if npu.Device != "NPU" || cpu.Device != "CPU" || cpu.CacheHits != 0 {
		t.Errorf("ran on %s and %s", npu.Device, cpu.Device)
	}
	for i := range texts {
		if npu.Embeddings[i][0] != cpu.Embeddings[i][0] {
			t.Errorf("text %d: %v on the NPU, %v on the CPU", i, npu.Embeddings[i], cpu.Embeddings[i])
		}
	}
	m.models.mu.Lock()
	var lengths []int
	for k := range m.models.loaded {
		if k.device == "NPU" {
			lengths = append(lengths, k.length)
		}
	}
	m.models.mu.Unlock()
	if slices.Sort(lengths); !slices.Equal(lengths, []int{64, 128, 256}) {
		t.Errorf("compiled for %v", lengths)
	}
	rising(t, r, "load", "infer")
	if m.models.devices.quarantine["NPU "+wantOf(t, m.Executor, "texts", "").digest+"/model.onnx"] != "" {
		t.Error("a good device is not trusted")
	}
}

// rising checks the progress of a task and its stages.
func rising(t *testing.T, r ran, want ...string) {
	t.Helper()
	last := -1
	var stages []string
	for _, p := range r.progress {
		if p.Percent < last && p.Stage != "load" && p.Stage != "compile" {
			t.Errorf("percent falls from %d to %d", last, p.Percent)
		}
		last = max(last, p.Percent)
		if !slices.Contains(stages, p.Stage) {
			stages = append(stages, p.Stage)
		}
		if p.Stage == "infer" && p.Unit != "item" {
			t.Errorf("%+v", p)
		}
	}
	if !slices.Equal(stages, want) || r.result.Load <= 0 {
		t.Errorf("stages %v, want %v; load took %s", stages, want, r.result.Load)
	}
}

func TestASlowCompilationIsToldAndDoesNotHoldTheOthers(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	m := doubled(t, withNPU, func(s *Settings) { s.LoadTimeout = 5 * time.Second })
	m.double.Set(t, "hold-compile-NPU")
	// Two tasks wait for one compilation.
	first := make(chan ran, 1)
	go func() {
		first <- run(t.Context(), t, m.Executor, "npu_inference", obj{"model": "plus-one", "device": "NPU", "inputs": four}, nil)
	}()
	m.double.Await(t, "compiling", 1)
	device, r := plusOne(t, m, "AUTO")
	if w := r.warned("DEVICE_FALLBACK"); device != "CPU" || !strings.Contains(w, "within 5s") {
		t.Errorf("ran on %s, warning %q", device, w)
	}
	slow := <-first
	if slow.err == nil || slow.err.Code != executors.CodeDeadlineExceeded || !slow.err.Retryable || !strings.Contains(slow.err.Error(), "load_timeout") {
		t.Errorf("%v", slow.err)
	}
	if !slices.ContainsFunc(slow.progress, func(p executors.Progress) bool {
		return p.Stage == "compile" && strings.Contains(p.Message, "plus-one is being compiled for NPU")
	}) {
		t.Errorf("nobody was told: %+v", slow.progress)
	}
	// It goes on, and what it made is used: no second compilation was begun.
	m.double.Clear(t, "hold-compile-NPU")
	<-m.models.loaded[key{name: "plus-one", file: "model.onnx", digest: wantOf(t, m.Executor, "plus-one", "").digest, device: "NPU"}].ready
	if device, _ := plusOne(t, m, "NPU"); device != "NPU" {
		t.Errorf("ran on %s", device)
	}
	if n := count(m.double.Log(t), "compiling"); n != 1 {
		t.Errorf("%d compilations", n)
	}
}

func count(lines []string, line string) (n int) {
	for _, l := range lines {
		if l == line {
			n++
		}
	}
	return n
}

func TestTheCacheOfTheNPUIsThatOfItsDriver(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	m := doubled(t, withNPU, nil)
	plusOne(t, m, "NPU")
	sum := fileSum(wantOf(t, m.Executor, "plus-one", "").card, "model.onnx")
	for _, want := range []string{"compile NPU CACHE_DIR=" + m.cache + "/2026.4.1-npu-1688/" + sum, "compile CPU CACHE_DIR=" + m.cache + "/2026.4.1/" + sum} {
		if !slices.Contains(m.double.Log(t), want) {
			t.Errorf("not passed: %s in %q", want, m.double.Log(t))
		}
	}
}

func TestACacheThatCannotBeWrittenCostsAWarning(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	m := doubled(t, withNPU, nil)
	m.double.Set(t, "full-cache")
	device, r := plusOne(t, m, "NPU")
	if w := r.warned("CACHE_UNUSABLE"); device != "NPU" || !strings.Contains(w, "cannot write the cache") {
		t.Errorf("ran on %s, warning %q", device, w)
	}
	m.double.Clear(t, "full-cache")
	do(t, m.Executor, "openvino", obj{"op": "unload_model", "model": "plus-one"}, nil)
	if err := os.Chmod(m.cache, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, r := plusOne(t, m, "NPU"); !strings.Contains(r.warned("CACHE_UNUSABLE"), "can be written by others") {
		t.Errorf("a cache that others can write: %v", r.result.Warnings)
	}
}

func TestTensorsThatAnNPUDoesNotTakeRunElsewhere(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	m := doubled(t, withNPU, nil)
	row := func(n int) obj {
		ids := make([]int64, n)
		for i := range ids {
			ids[i] = 4
		}
		return obj{"input_ids": obj{"data": [][]int64{ids}}, "attention_mask": obj{"data": [][]int64{ids}}}
	}
	for n, want := range map[int]string{64: "NPU", 128: "NPU", 9: "CPU"} {
		var out inferred
		r := do(t, m.Executor, "npu_inference", obj{"model": "texts", "inputs": row(n)}, &out)
		if out.Device != want || (want == "CPU") != strings.Contains(r.warned("DEVICE_FALLBACK"), "static_shapes") || out.Outputs["y"].Shape[1] != int64(n) {
			t.Errorf("%d tokens: on %s, %v, %v", n, out.Device, out.Outputs["y"].Shape, r.result.Warnings)
		}
	}
	fails(t, m.Executor, "npu_inference", obj{"model": "texts", "device": "NPU", "inputs": row(9)}, executors.CodeInvalidInput, "input_ids i64 [1,64]")
	var loaded struct {
		Device string `json:"device"`
		Bytes  int64  `json:"bytes"`
	}
	do(t, m.Executor, "openvino", obj{"op": "load_model", "model": "texts"}, &loaded)
	if loaded.Device != "NPU" || len(m.models.names()) != 1 {
		t.Errorf("%+v, %v", loaded, m.models.names())
	}
	m.models.mu.Lock()
	defer m.models.mu.Unlock()
	lengths := 0
	for k := range m.models.loaded {
		if k.device == "NPU" {
			lengths++
		}
	}
	if lengths != 3 {
		t.Errorf("ready for %d of 3 lengths", lengths)
	}
}

func TestALibraryOfAnotherReleaseInTheFolderIsTold(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	m := doubled(t, withNPU, nil)
	_ = m.Close()
	if err := os.WriteFile(filepath.Join(m.double.Dir, "libopenvino_c.so.2460"), []byte("older"), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := NewAt(m.settings, m.layout, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	d, err := e.Describe(t.Context())
	if err != nil || !d.Ready || !strings.Contains(strings.Join(d.Reasons, "\n"), "libopenvino_c.so.2460 is not used") {
		t.Errorf("%+v, %v", d, err)
	}
	h := e.Health(t.Context())
	for _, want := range []string{"libopenvino_c.so.2641", "NPU driver 1688", "libopenvino_c.so.2460 is not used"} {
		if !h.Ready || !strings.Contains(h.Message, want) {
			t.Errorf("health %+v does not say %q", h, want)
		}
	}
}
