package vision

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math"
)

// Fit says how a picture becomes the input of a model.
type Fit struct {
	Width, Height int
	Letterbox     bool   // sides are scaled alike and the rest is grey; else sides are scaled apart
	Channels      string // rgb, bgr or gray
	NHWC          bool   // channels are the last dimension, else the second
	Mean, Scale   []float64
}

// grey is what YOLO models are trained to see beside a picture.
var grey = color.RGBA{114, 114, 114, 255}

// Fitted is a picture as a model gets it: value = (value - mean) / scale of the
// bytes 0 to 255.
type Fitted struct {
	Data  []float32
	Shape []int64 // with a leading 1

	scaleX, scaleY, offsetX, offsetY float64 // pixel of the picture = (pixel of the input - offset) / scale
	width, height                    float64 // of the picture
}

// Apply fits a picture. It fails only where f itself is not usable.
func (f Fit) Apply(src *image.RGBA) (Fitted, error) {
	channels := 3
	if f.Channels == "gray" {
		channels = 1
	}
	table, err := f.table(channels)
	if err != nil {
		return Fitted{}, err
	}
	b := src.Bounds()
	w, h := float64(b.Dx()), float64(b.Dy())
	out := Fitted{scaleX: float64(f.Width) / w, scaleY: float64(f.Height) / h, width: w, height: h}
	target := image.Rect(0, 0, f.Width, f.Height)
	canvas := image.NewRGBA(target)
	if f.Letterbox {
		s := min(out.scaleX, out.scaleY)
		inner := image.Pt(max(int(math.Round(w*s)), 1), max(int(math.Round(h*s)), 1))
		at := image.Pt((f.Width-inner.X)/2, (f.Height-inner.Y)/2)
		target = image.Rectangle{Min: at, Max: at.Add(inner)}
		out.scaleX, out.scaleY = float64(inner.X)/w, float64(inner.Y)/h
		out.offsetX, out.offsetY = float64(at.X), float64(at.Y)
		draw.Draw(canvas, canvas.Bounds(), image.NewUniform(grey), image.Point{}, draw.Src)
	}
	scale(canvas, target, src)
	out.Data, out.Shape = f.tensor(canvas, table, channels)
	return out, nil
}

// table has the value of each byte for each channel.
func (f Fit) table(channels int) ([][256]float32, error) {
	if f.Width < 1 || f.Height < 1 || f.Width*f.Height > MaxPixels {
		return nil, fmt.Errorf("an input of %d x %d pixels", f.Width, f.Height)
	}
	pick := func(list []float64, i int, def float64) float64 {
		switch len(list) {
		case 0:
			return def
		case 1:
			return list[0]
		}
		return list[i]
	}
	for _, list := range [][]float64{f.Mean, f.Scale} {
		if len(list) > 1 && len(list) != channels {
			return nil, fmt.Errorf("%d values of mean or scale for %d channels", len(list), channels)
		}
	}
	table := make([][256]float32, channels)
	for c := range channels {
		mean, scale := pick(f.Mean, c, 0), pick(f.Scale, c, 1)
		for v := range table[c] {
			table[c][v] = float32((float64(v) - mean) / scale)
		}
	}
	return table, nil
}

// tensor lays the pixels of a canvas out.
func (f Fit) tensor(canvas *image.RGBA, table [][256]float32, channels int) ([]float32, []int64) {
	w, h := f.Width, f.Height
	data := make([]float32, channels*w*h)
	stride, step := w*h, 1 // from channel to channel, from pixel to pixel
	shape := []int64{1, int64(channels), int64(h), int64(w)}
	if f.NHWC {
		stride, step = 1, channels
		shape = []int64{1, int64(h), int64(w), int64(channels)}
	}
	order := [3]int{0, 1, 2}
	if f.Channels == "bgr" {
		order = [3]int{2, 1, 0}
	}
	pix := canvas.Pix[:4*w*h]
	if channels == 1 {
		for p, at := 0, 0; at < len(pix); p, at = p+1, at+4 {
			// Luma of ITU-R BT.601, as image/color has it.
			y := (19595*uint32(pix[at]) + 38470*uint32(pix[at+1]) + 7471*uint32(pix[at+2]) + 1<<15) >> 16
			data[p] = table[0][y]
		}
		return data, shape
	}
	for c := range 3 {
		values, to := &table[c], c*stride
		for at := order[c]; at < len(pix); at += 4 {
			data[to] = values[pix[at]]
			to += step
		}
	}
	return data, shape
}

// Back turns a box in pixels of the input into one of the picture, cut at its
// edges.
func (f Fitted) Back(b Box) Box {
	x := func(v float64) float64 { return min(max((v-f.offsetX)/f.scaleX, 0), f.width) }
	y := func(v float64) float64 { return min(max((v-f.offsetY)/f.scaleY, 0), f.height) }
	return Box{X1: x(b.X1), Y1: y(b.Y1), X2: x(b.X2), Y2: y(b.Y2)}
}
