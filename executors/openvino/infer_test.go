package openvino

import (
	"math"
	"os"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
)

type inferred struct {
	Outputs map[string]struct {
		Shape []int64   `json:"shape"`
		DType string    `json:"dtype"`
		Data  []float64 `json:"data"`
	} `json:"outputs"`
	Device string `json:"device"`
}

// wave is the input whose answer onnxruntime was asked for.
func wave(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(math.Sin(float64(i) * 0.37))
	}
	return v
}

func TestVoiceDetectorGivesTheReferenceValues(t *testing.T) {
	t.Parallel()
	var out inferred
	must(t, "npu_inference", obj{"model": "silero-vad", "inputs": obj{
		"input": obj{"shape": []int{1, 576}, "data": wave(576)},
		"state": obj{"shape": []int{2, 1, 128}, "dtype": "f32", "data": make([]float32, 256)},
	}}, &out)
	if len(out.Outputs) != 2 || len(out.Outputs["stateN"].Data) != 256 {
		t.Fatalf("%+v", out)
	}
	for name, o := range out.Outputs { // releases of the runtime name the first output differently
		if name != "stateN" && (len(o.Data) != 1 || math.Abs(o.Data[0]-0.00958058) > 1e-5) {
			t.Errorf("probability %v", o.Data)
		}
	}
	for i, want := range []float64{-0.0002802, 0.10805593, 0.03173738, -0.02309458} {
		if got := out.Outputs["stateN"].Data[i]; math.Abs(got-want) > 1e-5 {
			t.Errorf("state %d is %g, want %g", i, got, want)
		}
	}
}

func TestFileTypesAreRecognised(t *testing.T) {
	t.Parallel()
	e := real(t)
	card, dir, err := e.layout.Model("magika")
	if err != nil {
		t.Fatal(err)
	}
	labels, err := card.ReadLabels(dir)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"infer_test.go": "go", picture(t, "chelsea.png"): "png"} {
		var out inferred
		must(t, "openvino", obj{"model": "magika", "inputs": obj{"bytes": obj{"data": [][]int32{features(t, file)}}}}, &out)
		best, p := 0, 0.0
		for i, v := range out.Outputs["target_label"].Data {
			if v > p {
				best, p = i, v
			}
		}
		if labels[best] != want || p < 0.9 {
			t.Errorf("%s is %s with %.3f", file, labels[best], p)
		}
	}
}

// features is what the model sees of a file: its first and last 1024 bytes
// without white space around them, filled up with 256.
func features(t *testing.T, file string) []int32 {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]int32, 2048)
	for i := range out {
		out[i] = 256
	}
	head := trimLeft(raw[:min(len(raw), 4096)])
	for i := range min(len(head), 1024) {
		out[i] = int32(head[i])
	}
	tail := trimRight(raw[max(0, len(raw)-4096):])
	tail = tail[max(0, len(tail)-1024):]
	for i := range tail {
		out[2048-len(tail)+i] = int32(tail[i])
	}
	return out
}

func space(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' }

func trimLeft(b []byte) []byte {
	for len(b) > 0 && space(b[0]) {
		b = b[1:]
	}
	return b
}

func trimRight(b []byte) []byte {
	for len(b) > 0 && space(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func TestTensorsThatDoNotFitNameTheirField(t *testing.T) {
	t.Parallel()
	state := obj{"shape": []int{2, 1, 128}, "data": make([]float32, 256)}
	for _, tt := range []struct {
		name   string
		inputs obj
		field  string
	}{
		{"an input is missing", obj{"input": obj{"data": [][]float32{wave(576)}}}, "inputs"},
		{"an unknown input", obj{"inputt": obj{"data": []float32{1}}}, "inputs.inputt"},
		{"too few numbers", obj{"input": obj{"shape": []int{1, 576}, "data": wave(5)}, "state": state}, "inputs.input.data"},
		{"a wrong shape", obj{"input": obj{"shape": []int{1, 100}, "data": wave(100)}, "state": state}, "inputs"},
		{"a wrong rank", obj{"input": obj{"shape": []int{576}, "data": wave(576)}, "state": state}, "inputs"},
		{"a negative shape", obj{"input": obj{"shape": []int{-1, 576}, "data": wave(576)}, "state": state}, "inputs.input.shape"},
		{"a huge shape", obj{"input": obj{"shape": []int{1 << 40, 1 << 40}, "data": wave(5)}, "state": state}, "inputs.input.shape"},
		{"another type", obj{"input": obj{"shape": []int{1, 576}, "dtype": "i64", "data": make([]int, 576)}, "state": state}, "inputs"},
		{"an unknown type", obj{"input": obj{"shape": []int{1, 576}, "dtype": "float", "data": wave(576)}, "state": state}, "inputs.input.dtype"},
		{"ragged lists", obj{"input": obj{"data": [][]float32{{1, 2}, {3}}}, "state": state}, "inputs.input.data"},
		{"text", obj{"input": obj{"data": []string{"1"}}, "state": state}, "inputs.input.data"},
		{"neither data nor artifact", obj{"input": obj{"shape": []int{1, 576}}, "state": state}, "inputs.input"},
	} {
		if err := refused(t, "openvino", obj{"model": "silero-vad", "inputs": tt.inputs}, executors.CodeInvalidInput); err.Field != tt.field {
			t.Errorf("%s: field %q (%s), want %q", tt.name, err.Field, err.Message, tt.field)
		}
	}
	refused(t, "openvino", obj{"model": "silero-vad"}, executors.CodeInvalidInput)
	refused(t, "openvino", obj{}, executors.CodeInvalidInput)
	refused(t, "openvino", obj{"model": "silero-vad", "outputs": []string{"nosuch"}, "inputs": obj{"input": obj{"data": [][]float32{wave(576)}}, "state": state}}, executors.CodeInvalidInput)
}

func TestModelsAreLoadedAndUnloadedByTask(t *testing.T) {
	t.Parallel()
	var loaded struct {
		Device string `json:"device"`
		Bytes  int64  `json:"bytes"`
	}
	must(t, "openvino", obj{"op": "load_model", "model": "magika", "device": "CPU"}, &loaded)
	if loaded.Device != "CPU" || loaded.Bytes < 1<<20 {
		t.Errorf("%+v", loaded)
	}
	var unloaded struct {
		N int `json:"unloaded"`
	}
	must(t, "openvino", obj{"op": "unload_model", "model": "magika"}, &unloaded)
	if unloaded.N < 1 {
		t.Errorf("%+v", unloaded)
	}
}

func TestDevicesAreTold(t *testing.T) {
	t.Parallel()
	var out struct {
		Devices  []deviceInfo `json:"devices"`
		Selected string       `json:"selected"`
		Version  string       `json:"engine_version"`
	}
	must(t, "openvino", obj{"op": "device_info"}, &out)
	byID := map[string]deviceInfo{}
	for _, d := range out.Devices {
		byID[d.ID] = d
	}
	if !byID["CPU"].Available || byID["CPU"].FullName == "" || out.Version == "" || out.Selected == "" {
		t.Errorf("%+v", out)
	}
	if npu := byID["NPU"]; !npu.Available && npu.Reason == "" {
		t.Errorf("an absent NPU without a reason: %+v", npu)
	}
}

func TestBenchmarkMeasuresWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	var out struct {
		P50  float64 `json:"p50_ms"`
		P99  float64 `json:"p99_ms"`
		Runs int     `json:"runs"`
	}
	must(t, "openvino", obj{"op": "benchmark", "model": "silero-vad", "runs": 20, "warmup": 2}, &out)
	if out.Runs != 20 || out.P50 <= 0 || out.P99 < out.P50 {
		t.Errorf("%+v", out)
	}
	refused(t, "openvino", obj{"op": "benchmark", "model": "silero-vad", "batch": 4}, executors.CodeInvalidInput)
	refused(t, "openvino", obj{"op": "benchmark", "runs": 0}, executors.CodeInvalidInput)
}
