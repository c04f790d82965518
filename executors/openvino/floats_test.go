package openvino

import (
	"encoding/json"
	"math"
	"testing"
)

func TestVectorsAreReadBackAsTheyWere(t *testing.T) {
	t.Parallel()
	want := [][]float32{
		{0, 1, -1, 0.1, -0.33333334, 1e-7, 1.5e-38, math.SmallestNonzeroFloat32, math.MaxFloat32, 123456790, 3e20, float32(math.Copysign(0, -1))},
		{}, {0.0625},
	}
	r, err := encodeRows("embed", "embeddings", want, embedOutput{Count: 3, Dim: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got embedOutput
	if err := json.Unmarshal(r.Output, &got); err != nil {
		t.Fatalf("%v: %s", err, r.Output)
	}
	if got.Count != 3 || got.Dim != 1 || len(got.Embeddings) != len(want) {
		t.Fatalf("read back: %+v", got)
	}
	for i, row := range want {
		for d, x := range row {
			if math.Float32bits(got.Embeddings[i][d]) != math.Float32bits(x) {
				t.Errorf("row %d, value %d: %v became %v", i, d, x, got.Embeddings[i][d])
			}
		}
	}
	if r, err = encodeRows("embed", "embeddings", nil, struct{}{}, nil); err != nil || string(r.Output) != `{"embeddings":[]}` {
		t.Errorf("nothing becomes %s, %v", r.Output, err)
	}
}
