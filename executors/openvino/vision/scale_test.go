package vision

import (
	"image"
	"math/rand/v2"
	"testing"

	xdraw "golang.org/x/image/draw"
)

// The reference is the bilinear kernel of golang.org/x/image/draw.
func TestScalingIsThatOfTheReference(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range [][4]int{{451, 300, 300, 300}, {64, 48, 200, 131}, {300, 200, 7, 5}, {1, 1, 9, 3}, {17, 1, 1, 4}, {50, 40, 50, 40}, {1000, 3, 1, 1}} {
		src := image.NewRGBA(image.Rect(0, 0, size[0], size[1]))
		for i := range src.Pix {
			src.Pix[i] = uint8(random.UintN(256))
			if i%4 == 3 {
				src.Pix[i] = 255
			}
		}
		at := image.Rect(3, 2, 3+size[2], 2+size[3])
		got, want := image.NewRGBA(image.Rect(0, 0, size[2]+5, size[3]+5)), image.NewRGBA(image.Rect(0, 0, size[2]+5, size[3]+5))
		scale(got, at, src)
		xdraw.BiLinear.Scale(want, at, src, src.Bounds(), xdraw.Src, nil)
		differ := 0
		for i := range got.Pix {
			switch d := int(got.Pix[i]) - int(want.Pix[i]); {
			case d < -1 || d > 1:
				t.Fatalf("%v: byte %d is %d, want %d", size, i, got.Pix[i], want.Pix[i])
			case d != 0:
				differ++
			}
		}
		if differ*100 > len(got.Pix) {
			t.Errorf("%v: %d of %d bytes differ by one", size, differ, len(got.Pix))
		}
	}
}
