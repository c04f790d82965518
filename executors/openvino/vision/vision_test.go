package vision

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func encodePNG(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// halves is red on the left and blue on the right.
func halves(w, h int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			c := color.RGBA{255, 0, 0, 255}
			if x >= w/2 {
				c = color.RGBA{0, 0, 255, 255}
			}
			img.SetRGBA(x, y, c)
		}
	}
	return img
}

// hugePNG claims a size in its header and has no pixels.
func hugePNG(w, h uint32) []byte {
	head := binary.BigEndian.AppendUint32([]byte("IHDR"), w)
	head = append(binary.BigEndian.AppendUint32(head, h), 8, 2, 0, 0, 0)
	out := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\r"), head...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(head))
}

func TestPicturesAreCheckedBeforeTheyAreDecoded(t *testing.T) {
	t.Parallel()
	var large *TooLargeError
	if _, err := Decode(hugePNG(100_000, 100_000)); !errors.As(err, &large) || large.What != "pixels" {
		t.Errorf("10 gigapixels: %v", err)
	}
	if _, err := Decode(make([]byte, MaxBytes+1)); !errors.As(err, &large) || large.What != "bytes" {
		t.Errorf("too many bytes: %v", err)
	}
	for name, raw := range map[string][]byte{
		"empty": nil, "text": []byte("hello"), "no pixels": hugePNG(0, 10), "header alone": hugePNG(10, 10),
		"cut short": encodePNG(t, halves(64, 64))[:120],
	} {
		if _, err := Decode(raw); err == nil || errors.As(err, &large) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var jpg bytes.Buffer
	if err := jpeg.Encode(&jpg, halves(40, 20), nil); err != nil {
		t.Fatal(err)
	}
	if img, err := Decode(jpg.Bytes()); err != nil || img.Bounds().Dx() != 40 {
		t.Errorf("JPEG: %v", err)
	}
	clear := image.NewNRGBA(image.Rect(5, 5, 7, 7)) // wholly transparent, not at 0, 0
	if img, err := Decode(encodePNG(t, clear)); err != nil || img.RGBAAt(0, 0) != (color.RGBA{255, 255, 255, 255}) {
		t.Errorf("transparent is not white: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encodePNG(f, halves(4, 4)))
	f.Add(hugePNG(1, 1))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if img, err := Decode(raw); err == nil && (img.Bounds().Min != image.Point{} || img.Bounds().Empty()) {
			t.Errorf("bounds %v", img.Bounds())
		}
	})
}

func TestFitLaysPixelsOutAsTheModelWantsThem(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fit   Fit
		shape []int64
		left  []int // indexes into Data that are 1: red of the left pixel
	}{
		{Fit{Width: 2, Height: 1, Channels: "rgb", Scale: []float64{255}}, []int64{1, 3, 1, 2}, []int{0, 5}},
		{Fit{Width: 2, Height: 1, Channels: "bgr", Scale: []float64{255}}, []int64{1, 3, 1, 2}, []int{4, 1}},
		{Fit{Width: 2, Height: 1, Channels: "rgb", Scale: []float64{255}, NHWC: true}, []int64{1, 1, 2, 3}, []int{0, 5}},
	} {
		got, err := tt.fit.Apply(halves(2, 1))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tt.shape, got.Shape); d != "" {
			t.Error(d)
		}
		for i, v := range got.Data {
			want := float32(0)
			if i == tt.left[0] || i == tt.left[1] {
				want = 1
			}
			if v != want {
				t.Errorf("%+v: value %d is %g, want %g", tt.fit, i, v, want)
			}
		}
	}
	signed, err := Fit{Width: 1, Height: 1, Channels: "gray", Mean: []float64{127.5}, Scale: []float64{127.5}}.Apply(image.NewRGBA(image.Rect(0, 0, 3, 3)))
	if err != nil || len(signed.Data) != 1 || signed.Data[0] != -1 {
		t.Errorf("black is %v, %v", signed.Data, err)
	}
	if _, err := (Fit{Width: 1, Height: 1, Channels: "rgb", Mean: []float64{1, 2}}).Apply(halves(2, 2)); err == nil {
		t.Error("two means for three channels are no error")
	}
}

func TestBoxesComeBackThroughTheSameFit(t *testing.T) {
	t.Parallel()
	for _, fit := range []Fit{
		{Width: 300, Height: 300, Channels: "rgb"}, {Width: 640, Height: 640, Channels: "rgb", Letterbox: true}, {Width: 320, Height: 640, Channels: "rgb", Letterbox: true},
	} {
		// A white square on black: its edges in the input lead back to where it is.
		img := image.NewRGBA(image.Rect(0, 0, 1000, 500))
		for y := 100; y < 300; y++ {
			for x := 400; x < 600; x++ {
				img.SetRGBA(x, y, color.RGBA{255, 255, 255, 255})
			}
		}
		got, err := fit.Apply(img)
		if err != nil {
			t.Fatal(err)
		}
		b := got.Back(bright(got.Data[:fit.Width*fit.Height], fit.Width))
		for i, d := range []float64{b.X1 - 400, b.Y1 - 100, b.X2 - 600, b.Y2 - 300} {
			if math.Abs(d) > 4 {
				t.Errorf("%+v: edge %d is off by %.1f pixels (%+v)", fit, i, d, b)
			}
		}
		if whole := got.Back(Box{-50, -50, 5000, 5000}); whole != (Box{0, 0, 1000, 500}) {
			t.Errorf("cut at the edges: %+v", whole)
		}
	}
}

// bright is the box around all values above 200 of one channel.
func bright(plane []float32, width int) Box {
	b := Box{math.Inf(1), math.Inf(1), 0, 0}
	for i, v := range plane {
		if v > 200 {
			x, y := float64(i%width), float64(i/width)
			b = Box{min(b.X1, x), min(b.Y1, y), max(b.X2, x+1), max(b.Y2, y+1)}
		}
	}
	return b
}

func TestOnlyOverlapsOfOneClassAreSuppressed(t *testing.T) {
	t.Parallel()
	a := Box{0, 0, 100, 100}
	near := Box{0, 43, 100, 143} // shares 57 of 143: 0.40
	if iou := a.IoU(near); math.Abs(iou-0.3986) > 1e-3 {
		t.Fatalf("overlap %g", iou)
	}
	if got := Suppress([]Detection{{1, 0.9, a}, {1, 0.8, near}}, 0.45); len(got) != 2 {
		t.Errorf("boxes that overlap by 0.40 at 0.45: %v", got)
	}
	if got := Suppress([]Detection{{1, 0.8, near}, {1, 0.9, a}}, 0.35); len(got) != 1 || got[0].Score != 0.9 {
		t.Errorf("at 0.35 the better one stays: %v", got)
	}
	if got := Suppress([]Detection{{1, 0.9, a}, {2, 0.8, a}}, 0.1); len(got) != 2 {
		t.Errorf("two classes: %v", got)
	}
}

func TestYOLOLayoutsGiveTheSameDetections(t *testing.T) {
	t.Parallel()
	// Two candidates, two classes: the first is class 1 with 0.75, the second nothing.
	byRow := []float32{50, 40, 20, 10, 0.25, 0.75, 1, 1, 1, 1, 0.125, 0.25}
	byColumn := make([]float32, 12)
	for i := range 2 {
		for c := range 6 {
			byColumn[c*2+i] = byRow[i*6+c]
		}
	}
	want := []Detection{{Class: 1, Score: 0.75, Box: Box{40, 35, 60, 45}}}
	got, err := YOLO(byColumn, []int64{1, 6, 2}, false, 0.5)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
	got, err = YOLO(byRow, []int64{1, 2, 6}, true, 0.5)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("transposed: %v %s", err, d)
	}
	got, err = YOLOEnd2End([]float32{40, 35, 60, 45, 0.75, 1, 0, 0, 1, 1, 0.25, 0}, []int64{1, 2, 6}, 0.5)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("end to end: %v %s", err, d)
	}
}

func TestOutputsThatDoNotFitTheLayoutAreErrors(t *testing.T) {
	t.Parallel()
	nan := float32(math.NaN())
	var number *NumberError
	for name, err := range map[string]error{
		"rank":    errorOf(YOLO([]float32{1, 2}, []int64{1, 2}, false, 0.5)),
		"length":  errorOf(YOLO([]float32{1, 2}, []int64{1, 6, 2}, false, 0.5)),
		"columns": errorOf(YOLO(make([]float32, 8), []int64{1, 4, 2}, false, 0.5)),
		"seven":   errorOf(YOLOEnd2End(make([]float32, 14), []int64{1, 2, 7}, 0.5)),
		"batch":   errorOf(YOLO(make([]float32, 24), []int64{2, 6, 2}, false, 0.5)),
		"ssd":     errorOf(SSD(make([]float32, 4), make([]float32, 24), 300, 0.5)),
	} {
		if err == nil || errors.As(err, &number) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := errorOf(YOLO([]float32{1, 1, 1, 1, nan}, []int64{1, 5, 1}, false, 0.5)); !errors.As(err, &number) || number.Index != 4 {
		t.Errorf("NaN: %v", err)
	}
	boxes := make([]float32, 4*1917)
	boxes[7] = float32(math.Inf(1))
	if err := errorOf(SSD(boxes, make([]float32, 24*1917), 300, 0.5)); !errors.As(err, &number) || number.Index != 7 {
		t.Errorf("infinity: %v", err)
	}
}

func errorOf(_ []Detection, err error) error { return err }

func TestAnchorsAreThoseOfTheModel(t *testing.T) {
	t.Parallel()
	anchors := ssdAnchors(300)
	if len(anchors) != 1917 {
		t.Fatalf("%d anchors", len(anchors))
	}
	first, last := anchors[0], anchors[1916]
	if math.Abs(first.w-0.1) > 1e-9 || math.Abs(first.x-0.5/19) > 1e-9 || math.Abs(last.w-math.Sqrt(0.95)) > 1e-9 || last.x != 0.5 {
		t.Errorf("first %+v, last %+v", first, last)
	}
}

func TestDrawMarksWithoutLeavingThePicture(t *testing.T) {
	t.Parallel()
	src := halves(120, 60)
	out, err := Draw(src, []Marked{{Box: Box{-10, -10, 300, 30}, Class: 12, Text: strings.Repeat("wide ", 40)}, {Box: Box{50, 20, 51, 21}}})
	if err != nil {
		t.Fatal(err)
	}
	if out.Bounds() != src.Bounds() || bytes.Equal(out.Pix, src.Pix) {
		t.Error("nothing was drawn")
	}
	if src.RGBAAt(0, 0) != (color.RGBA{255, 0, 0, 255}) {
		t.Error("the picture itself was changed")
	}
}
