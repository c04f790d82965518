package openvino

import (
	"fmt"
	"strings"
	"testing"
)

func TestBatchesGrowInSteps(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		shape                sequenceShape
		rows, length         int
		wantRows, wantLength int
	}{
		{sequenceShape{}, 1, 7, 1, 8},
		{sequenceShape{}, 5, 16, 6, 16},
		{sequenceShape{}, 30, 255, 32, 256},
		{sequenceShape{}, 29, 99, 32, 100}, // the model reads 100
		{sequenceShape{most: 30}, 29, 8, 29, 8},
		{sequenceShape{rows: 8, length: 64}, 2, 5, 8, 64},
	} {
		most := 256
		if tt.wantLength == 100 {
			most = 100
		}
		if rows, length := tt.shape.round(tt.rows, tt.length, 32, most); rows != tt.wantRows || length != tt.wantLength {
			t.Errorf("%+v: %d rows of %d become %d of %d, want %d of %d", tt.shape, tt.rows, tt.length, rows, length, tt.wantRows, tt.wantLength)
		}
	}
}

func TestTextsArePaddedTheSameAloneAndAmongOthers(t *testing.T) {
	t.Parallel()
	b := &batcher{model: &model{}, limit: 3, wake: make(chan struct{}, 1)}
	for _, n := range []int{9, 30, 16, 33, 12, 15, 1, 32} {
		b.add([]*sequence{{ctx: t.Context(), ids: make([]int64, n)}})
	}
	var got []string
	for list := b.take(); len(list) > 0; list = b.take() {
		var lengths []int
		for _, s := range list {
			lengths = append(lengths, len(s.ids))
		}
		got = append(got, fmt.Sprint(lengths))
	}
	if want := "[9 16 12] [30 32] [33] [15] [1]"; strings.Join(got, " ") != want {
		t.Errorf("inferences of %v, want %s", got, want)
	}
}

// A longer neighbour changed the second of these texts: cosine 0.99989.
func TestAVectorDoesNotDependOnTheNeighbours(t *testing.T) {
	t.Parallel()
	e := on(t, real(t).layout.ModelsDir, func(s *Settings) { s.EmbedCache = 0 })
	base := sentences(8)
	texts := []string{base[0] + " " + base[1] + " " + base[2], base[6] + "[" + base[0] + "[]]", base[1] + "[" + base[0] + "[]]", base[3]}
	var together embedOutput
	do(t, e, "embedding", obj{"texts": texts, "device": "CPU"}, &together)
	for i, text := range texts {
		var alone embedOutput
		do(t, e, "embedding", obj{"text": text, "device": "CPU"}, &alone)
		if c := cosine(alone.Embeddings[0], together.Embeddings[i]); c < 0.9999 {
			t.Errorf("text %d: cosine %.6f", i, c)
		}
	}
}
