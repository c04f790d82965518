package openvino

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
)

// tokenRow is the inputs of op infer for one text of n tokens.
func tokenRow(n int, names ...string) obj {
	row := make([]int64, n)
	for i := range row {
		row[i] = int64(4 + i%3)
	}
	inputs := obj{}
	for _, name := range names {
		inputs[name] = obj{"data": [][]int64{row}}
	}
	return inputs
}

func TestTensorsArePaddedToTheSmallestShapeOfTheNPU(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	m := doubled(t, withNPU, nil)
	card := textCard("described")
	card.StaticShapes = []int{64, 128}
	card.Inputs = []engines.Port{{Name: "input_ids", Type: "i64", Shape: []int64{-1, -1}}, {Name: "attention_mask", Type: "i64", Shape: []int64{-1, -1}}}
	card.Outputs = []engines.Port{{Name: "y", Type: "f32", Shape: []int64{-1, -1, 1}}, {Name: "pooled", Type: "f32", Shape: []int64{-1, 64}}}
	addModel(t, m.shelf, card, map[string][]byte{
		"model.onnx": []byte("in input_ids i64 ?,?\nin attention_mask i64 ?,?\nout y f32 ?,?,1\nout pooled f32 ?,64\n"), "vocab.txt": vocabulary,
	})
	ask := func(device string, n int) (out inferred) {
		r := do(t, m.Executor, "npu_inference", obj{"model": "described", "device": device, "inputs": tokenRow(n, "input_ids", "attention_mask")}, &out)
		if len(r.result.Warnings) > 0 {
			t.Errorf("%d tokens: %v", n, r.result.Warnings)
		}
		return out
	}
	for _, n := range []int{1, 9, 63, 64, 65} {
		npu, cpu := ask("AUTO", n), ask("CPU", n)
		if npu.Device != "NPU" || cpu.Device != "CPU" {
			t.Errorf("%d tokens: on %s and %s", n, npu.Device, cpu.Device)
		}
		got, want := npu.Outputs["y"], cpu.Outputs["y"]
		if !slices.Equal(got.Shape, []int64{1, int64(n), 1}) || fmt.Sprint(got.Data) != fmt.Sprint(want.Data) {
			t.Errorf("%d tokens: %v %v, want %v %v", n, got.Shape, got.Data, want.Shape, want.Data)
		}
		if pooled := npu.Outputs["pooled"]; !slices.Equal(pooled.Shape, []int64{1, 64}) {
			t.Errorf("%d tokens: the vector of the text was cut to %v", n, pooled.Shape)
		}
	}
	inputs := tokenRow(129, "input_ids", "attention_mask")
	fails(t, m.Executor, "npu_inference", obj{"model": "described", "device": "NPU", "inputs": inputs}, executors.CodeInvalidInput, "input_ids i64 [1,64]")
}

// What comes out of the padding itself would not be told from a result.
func TestTensorsWithoutAMaskAreNotPadded(t *testing.T) {
	t.Parallel()
	card := textCard("texts")
	card.StaticShapes = []int{64, 128}
	card.Outputs = []engines.Port{{Name: "y", Type: "f32", Shape: []int64{-1, -1, 1}}}
	row := func(names ...string) map[string]tensorPayload {
		inputs := map[string]tensorPayload{}
		for _, name := range names {
			inputs[name] = tensorPayload{Shape: []int64{1, 9}}
		}
		return inputs
	}
	silent := card
	silent.Outputs = nil
	for _, tt := range []struct {
		name   string
		inputs map[string]tensorPayload
		card   engines.Card
		length int
		open   bool
	}{
		{"masked", row("input_ids", "attention_mask"), card, 64, false},
		{"without a mask", row("input_ids"), card, 64, true},
		{"with another input", row("input_ids", "attention_mask", "x"), card, 64, true},
		{"of unknown outputs", row("input_ids", "attention_mask"), silent, 64, true},
	} {
		if length, open := sequenceLength(tt.inputs, tt.card); length != tt.length || open != tt.open {
			t.Errorf("%s: %d %t", tt.name, length, open)
		}
	}
}

func TestTheCornerOfATensor(t *testing.T) {
	t.Parallel()
	whole, err := ov.New([]int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 2, 3, 2)
	if err != nil {
		t.Fatal(err)
	}
	part, err := corner(whole, []int64{2, 2, 1})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := ov.Data[int32](part); !slices.Equal(got, []int32{0, 2, 6, 8}) {
		t.Errorf("%v", got)
	}
}

func TestAnOutputThatTheCardDoesNotTellIsNotCut(t *testing.T) {
	t.Parallel()
	y, err := ov.Zeros(ov.F32, 1, 64, 2)
	if err != nil {
		t.Fatal(err)
	}
	p := &padding{from: 9, to: 64, outputs: []engines.Port{{Name: "z", Shape: []int64{-1, -1, 2}}, {Name: "y", Shape: []int64{-1, -1}}}}
	if _, err := p.shorten(key{name: "texts"}, map[string]ov.Tensor{"y": y}); err == nil || !strings.Contains(err.Error(), "is not in its card") {
		t.Errorf("%v", err)
	}
}
