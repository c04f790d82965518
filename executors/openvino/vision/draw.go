package vision

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

// Marked is a box to draw, with what is written beside it.
type Marked struct {
	Box   Box
	Class int // chooses the colour
	Text  string
}

// palette has colours that differ from each other and from most of a picture.
var palette = []color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255},
	{230, 159, 0, 255}, {86, 180, 233, 255}, {200, 30, 30, 255}, {90, 60, 160, 255},
}

// Draw returns a copy of a picture with boxes and texts.
func Draw(src *image.RGBA, marks []Marked) (*image.RGBA, error) {
	dst := image.NewRGBA(src.Bounds())
	draw.Draw(dst, dst.Bounds(), src, src.Bounds().Min, draw.Src)
	b := dst.Bounds()
	size := max(float64(min(b.Dx(), b.Dy()))/28, 11)
	parsed, err := opentype.Parse(gobold.TTF)
	if err != nil {
		return nil, fmt.Errorf("read the font: %w", err)
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: size, DPI: 72, Hinting: font.HintingFull})
	if err != nil {
		return nil, fmt.Errorf("size the font: %w", err)
	}
	defer func() { _ = face.Close() }()
	for _, m := range marks {
		mark(dst, face, m, max(int(size/6), 2))
	}
	return dst, nil
}

// mark draws one box and its text, which stays inside of the picture.
func mark(dst *image.RGBA, face font.Face, m Marked, line int) {
	c := image.NewUniform(palette[m.Class%len(palette)])
	r := image.Rect(int(m.Box.X1), int(m.Box.Y1), int(m.Box.X2+0.5), int(m.Box.Y2+0.5)).Intersect(dst.Bounds())
	for _, side := range []image.Rectangle{
		{r.Min, image.Pt(r.Max.X, r.Min.Y+line)}, {image.Pt(r.Min.X, r.Max.Y-line), r.Max},
		{r.Min, image.Pt(r.Min.X+line, r.Max.Y)}, {image.Pt(r.Max.X-line, r.Min.Y), r.Max},
	} {
		draw.Draw(dst, side.Intersect(r), c, image.Point{}, draw.Src)
	}
	if m.Text == "" {
		return
	}
	height := face.Metrics().Height.Ceil()
	label := image.Rect(0, 0, font.MeasureString(face, m.Text).Ceil()+2*line, height+line)
	at := image.Pt(min(r.Min.X, dst.Bounds().Max.X-label.Dx()), r.Min.Y-label.Dy())
	if at.Y < 0 {
		at.Y = r.Min.Y
	}
	label = label.Add(image.Pt(max(at.X, 0), at.Y))
	draw.Draw(dst, label, c, image.Point{}, draw.Src)
	pen := font.Drawer{
		Dst: dst, Src: image.White, Face: face,
		Dot: fixed.P(label.Min.X+line, label.Min.Y+face.Metrics().Ascent.Ceil()+line/2),
	}
	pen.DrawString(m.Text)
}
