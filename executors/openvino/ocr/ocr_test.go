package ocr

import (
	"image"
	"image/color"
	"math"
	"slices"
	"testing"
)

// bar draws a bar of probability 0.9 with the middle cx, cy, turned by degrees.
func bar(m []float32, width int, cx, cy, w, h, degrees float64) {
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	for i := range m {
		x, y := float64(i%width)+0.5-cx, float64(i/width)+0.5-cy
		u, v := x*cos+y*sin, -x*sin+y*cos
		if math.Abs(u) <= w/2 && math.Abs(v) <= h/2 {
			m[i] = 0.9
		}
	}
}

func TestLinesAreFoundWhereTheyLie(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		degrees float64
		w, h    float64
		angle   float64 // of the top side
	}{
		{"level", 0, 100, 10, 0}, {"rising", -20, 100, 10, -20}, {"falling", 35, 100, 10, 35}, {"a column is read downwards or upwards", 90, 100, 10, 90},
		{"a short word", 5, 20, 14, 5},
	} {
		m := make([]float32, 200*160)
		bar(m, 200, 100, 80, tt.w, tt.h, tt.degrees)
		lines, err := Lines(m, 200, 160, 2, 3, 0.5)
		if err != nil || len(lines) != 1 {
			t.Errorf("%s: %v, %v", tt.name, lines, err)
			continue
		}
		q := lines[0].Quad
		for i := range q { // back to the map, where both scales are alike
			q[i] = Point{q[i].X / 2, q[i].Y / 3}
		}
		grown := tt.w * tt.h * unclipRatio / (tt.w + tt.h)
		if dw, dh := q.Width()-tt.w-grown, q.Height()-tt.h-grown; math.Abs(dw) > 4 || math.Abs(dh) > 4 {
			t.Errorf("%s: %.1f x %.1f, want about %.1f x %.1f", tt.name, q.Width(), q.Height(), tt.w+grown, tt.h+grown)
		}
		angle := math.Atan2(q[1].Y-q[0].Y, q[1].X-q[0].X) * 180 / math.Pi
		if off := math.Abs(math.Mod(angle-tt.angle+540, 180)); tt.degrees == 90 && off > 4 && off < 176 || tt.degrees != 90 && math.Abs(angle-tt.angle) > 4 {
			t.Errorf("%s: the top has %.1f degrees", tt.name, angle)
		}
		if cross(q[0], q[1], q[3]) <= 0 {
			t.Errorf("%s: the corners are mirrored: %v", tt.name, q)
		}
	}
}

func TestLinesComeInReadingOrder(t *testing.T) {
	t.Parallel()
	m := make([]float32, 300*100)
	bar(m, 300, 220, 22, 80, 10, 0) // first row, right
	bar(m, 300, 60, 20, 80, 10, 0)  // first row, left
	bar(m, 300, 60, 60, 80, 10, 0)  // second row
	bar(m, 300, 200, 60, 1, 1, 0)   // a speck
	lines, err := Lines(m, 300, 100, 1, 1, 0.5)
	if err != nil || len(lines) != 3 {
		t.Fatalf("%v, %v", lines, err)
	}
	var lefts []int
	for _, l := range lines {
		lefts = append(lefts, int(math.Round((l.Quad[0].X+l.Quad[2].X)/2)))
	}
	if !slices.Equal(lefts, []int{60, 220, 60}) {
		t.Errorf("middles %v", lefts)
	}
	if lines, _ := Lines(m, 300, 100, 1, 1, 0.95); len(lines) != 0 {
		t.Errorf("below the threshold: %v", lines)
	}
}

func TestMapsThatDoNotFitAreErrors(t *testing.T) {
	t.Parallel()
	if _, err := Lines(make([]float32, 5), 2, 3, 1, 1, 0.5); err == nil {
		t.Error("no error")
	}
	nan := []float32{float32(math.NaN()), 1, 1, 1}
	if lines, err := Lines(nan, 2, 2, 1, 1, 0.5); err != nil || len(lines) != 0 {
		t.Errorf("%v, %v", lines, err)
	}
}

func TestCropTurnsALineUpright(t *testing.T) {
	t.Parallel()
	// Left half white, right half black.
	img := image.NewRGBA(image.Rect(0, 0, 96, 96))
	for y := range 96 {
		for x := range 96 {
			v := uint8(255)
			if x >= 48 {
				v = 0
			}
			img.SetRGBA(x, y, color.RGBA{v, v, v, 255})
		}
	}
	level := Quad{{0, 0}, {96, 0}, {96, 48}, {0, 48}}
	planes, width := Crop(img, level)
	if width != 96 || len(planes) != 3*LineHeight*96 {
		t.Fatalf("%d wide, %d values", width, len(planes))
	}
	if planes[10] != 1 || planes[90] != -1 {
		t.Errorf("left %g, right %g", planes[10], planes[90])
	}
	if turned, _ := Crop(img, level.Turn()); turned[10] != -1 || turned[90] != 1 {
		t.Errorf("turned: left %g, right %g", turned[10], turned[90])
	}
	narrow, width := Crop(img, Quad{{0, 0}, {20, 0}, {20, 48}, {0, 48}})
	if width != 32 || narrow[31] != 0 {
		t.Errorf("%d wide, beside the text %g", width, narrow[31])
	}
}

func TestDecodeDropsRepeatsAndBlanks(t *testing.T) {
	t.Parallel()
	keys, err := ParseKeys([]byte("a\nb\r\nü\n"))
	if err != nil || len(keys) != 5 {
		t.Fatalf("%q, %v", keys, err)
	}
	var p []float32
	for _, class := range []int{0, 1, 1, 0, 1, 2, 4, 3, 0} { // - a a - a b space ü -
		row := make([]float32, 5)
		row[class] = 0.8
		p = append(p, row...)
	}
	text, confidence, err := keys.Decode(p, 9, 5)
	if err != nil || text != "aab ü" || math.Abs(confidence-0.8) > 1e-6 {
		t.Errorf("%q, %g, %v", text, confidence, err)
	}
	if text, confidence, err := keys.Decode(make([]float32, 10), 2, 5); text != "" || confidence != 0 || err != nil {
		t.Errorf("nothing: %q, %g, %v", text, confidence, err)
	}
	if _, _, err := keys.Decode(make([]float32, 12), 2, 6); err == nil {
		t.Error("another number of classes is no error")
	}
	if _, err := ParseKeys(nil); err == nil {
		t.Error("no characters are no error")
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte{0, 255, 255, 0, 255, 255}, 3)
	f.Fuzz(func(t *testing.T, raw []byte, width int) {
		m := make([]float32, len(raw))
		for i, v := range raw {
			m[i] = float32(v) / 255
		}
		if width < 1 || len(raw) == 0 || len(raw)%width != 0 {
			width = max(len(raw), 1)
		}
		lines, err := Lines(m, width, len(m)/width, 1, 1, 0.3)
		if err != nil && len(m) > 0 {
			t.Error(err)
		}
		img := image.NewRGBA(image.Rect(0, 0, 8, 8))
		for _, l := range lines {
			if w := l.Quad.Width(); math.IsNaN(w) || w <= 0 {
				t.Errorf("%v", l.Quad)
			}
			Crop(img, l.Quad)
		}
	})
}
