package ocr

import (
	"image"
	"math"
)

// Limits of a line as the recogniser gets it, in pixels.
const (
	LineHeight   = 48
	maxLineWidth = 3200
	widthStep    = 32 // widths are multiples of it, so that few shapes occur
)

// Crop cuts a line out of a picture and turns it upright: three planes (blue,
// green, red, as the models are trained) of LineHeight times width values
// between -1 and 1. What is right of the text is 0, which is grey.
func Crop(src *image.RGBA, q Quad) (planes []float32, width int) {
	ratio := q.Width() / max(q.Height(), 1)
	text := min(max(int(math.Ceil(LineHeight*ratio)), 8), maxLineWidth)
	width = (text + widthStep - 1) / widthStep * widthStep
	planes = make([]float32, 3*LineHeight*width)
	along, down := q[1].minus(q[0]), q[3].minus(q[0])
	for y := range LineHeight {
		for x := range text {
			p := q[0].plus(along.times((float64(x) + 0.5) / float64(text))).plus(down.times((float64(y) + 0.5) / LineHeight))
			r, g, b := sample(src, p.X-0.5, p.Y-0.5)
			at := y*width + x
			planes[at] = float32(b/127.5 - 1)
			planes[LineHeight*width+at] = float32(g/127.5 - 1)
			planes[2*LineHeight*width+at] = float32(r/127.5 - 1)
		}
	}
	return planes, width
}

// Turn is the quad read from its other end.
func (q Quad) Turn() Quad { return Quad{q[2], q[3], q[0], q[1]} }

// sample reads a place between pixels (bilinear); beyond the edge is the edge.
func sample(src *image.RGBA, x, y float64) (r, g, b float64) {
	bounds := src.Bounds()
	x = min(max(x, 0), float64(bounds.Dx()-1))
	y = min(max(y, 0), float64(bounds.Dy()-1))
	x0, y0 := int(x), int(y)
	x1, y1 := min(x0+1, bounds.Dx()-1), min(y0+1, bounds.Dy()-1)
	fx, fy := x-float64(x0), y-float64(y0)
	for _, c := range [4]struct {
		x, y   int
		weight float64
	}{{x0, y0, (1 - fx) * (1 - fy)}, {x1, y0, fx * (1 - fy)}, {x0, y1, (1 - fx) * fy}, {x1, y1, fx * fy}} {
		px := src.Pix[src.PixOffset(bounds.Min.X+c.x, bounds.Min.Y+c.y):]
		r += c.weight * float64(px[0])
		g += c.weight * float64(px[1])
		b += c.weight * float64(px[2])
	}
	return r, g, b
}
