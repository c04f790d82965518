package openvino

import "testing"

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
