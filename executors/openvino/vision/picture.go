package vision

import (
	"bytes"
	"fmt"
	"image"
	"image/draw"
	_ "image/jpeg" // registers the format
	_ "image/png"  // registers the format
)

// Limits of a picture.
const (
	MaxBytes  = 20 << 20   // of the file
	MaxPixels = 40_000_000 // width times height
)

// A TooLargeError says which limit a picture breaks.
type TooLargeError struct {
	What        string // "bytes" or "pixels"
	Have, Limit int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the picture has %d %s, the limit is %d", e.Have, e.What, e.Limit)
}

// Decode reads a PNG or JPEG file. Its size is known from the header before
// anything is decoded. The picture starts at 0, 0; transparent parts are on
// white.
func Decode(raw []byte) (*image.RGBA, error) {
	if len(raw) > MaxBytes {
		return nil, &TooLargeError{"bytes", int64(len(raw)), MaxBytes}
	}
	config, kind, err := image.DecodeConfig(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("is neither a PNG nor a JPEG picture: %w", err)
	}
	if config.Width < 1 || config.Height < 1 {
		return nil, fmt.Errorf("is a %s picture of %d x %d pixels", kind, config.Width, config.Height)
	}
	if n := int64(config.Width) * int64(config.Height); n > MaxPixels {
		return nil, &TooLargeError{"pixels", n, MaxPixels}
	}
	decoded, _, err := image.Decode(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("is a damaged %s picture: %w", kind, err)
	}
	return toRGBA(decoded), nil
}

// toRGBA returns a picture on white: the picture itself where it is opaque and
// has the right bytes, else a copy.
func toRGBA(src image.Image) *image.RGBA {
	b := src.Bounds()
	switch p := src.(type) {
	case *image.RGBA:
		if b.Min == (image.Point{}) && p.Opaque() {
			return p
		}
	case *image.NRGBA: // without transparency the same bytes
		if b.Min == (image.Point{}) && p.Opaque() {
			return &image.RGBA{Pix: p.Pix, Stride: p.Stride, Rect: p.Rect}
		}
	}
	dst := image.NewRGBA(image.Rect(0, 0, b.Dx(), b.Dy()))
	if o, ok := src.(interface{ Opaque() bool }); ok && o.Opaque() {
		draw.Draw(dst, dst.Bounds(), src, b.Min, draw.Src)
		return dst
	}
	draw.Draw(dst, dst.Bounds(), image.White, image.Point{}, draw.Src)
	draw.Draw(dst, dst.Bounds(), src, b.Min, draw.Over)
	return dst
}
