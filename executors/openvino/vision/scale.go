package vision

import (
	"image"
	"math"
)

// taps says which pixels of a row or column make one of the result, and with
// which weights; these add up to 1.
type taps struct {
	first   int
	weights []float32
}

// triangle returns the taps that scale from pixels to to pixels with a triangle
// filter: bilinear where pixels become more, and where they become fewer as wide
// as the step between two of the result, so that none is left out.
func triangle(from, to int) []taps {
	step := float64(from) / float64(to)
	wide := max(step, 1)
	all := make([]taps, to)
	weights := make([]float32, 0, to*(2*int(math.Ceil(wide))+1))
	for i := range all {
		center := (float64(i)+0.5)*step - 0.5
		first, end := max(int(math.Floor(center-wide))+1, 0), min(int(math.Ceil(center+wide)), from)
		total, at := 0.0, len(weights)
		for p := first; p < end; p++ {
			total += 1 - math.Abs(center-float64(p))/wide
		}
		for p := first; p < end; p++ {
			weights = append(weights, float32((1-math.Abs(center-float64(p))/wide)/total))
		}
		all[i] = taps{first, weights[at:len(weights):len(weights)]}
	}
	return all
}

// scale draws the opaque picture src, scaled, into the rectangle at of dst.
// Rows are scaled first, each only once; a column of sums then follows the rows.
func scale(dst *image.RGBA, at image.Rectangle, src *image.RGBA) {
	b := src.Bounds()
	w := at.Dx()
	across, down := triangle(b.Dx(), w), triangle(b.Dy(), at.Dy())
	rows := make([][]float32, b.Dy()) // scaled rows that are still needed
	var free [][]float32
	sum := make([]float32, 3*w)
	done := 0 // rows before it are not needed any more
	for y, t := range down {
		for ; done < t.first; done++ {
			if rows[done] != nil {
				free = append(free, rows[done])
				rows[done] = nil
			}
		}
		clear(sum)
		for i, weight := range t.weights {
			p := t.first + i
			if rows[p] == nil {
				if n := len(free); n > 0 {
					rows[p], free = free[n-1], free[:n-1]
				} else {
					rows[p] = make([]float32, 3*w)
				}
				scaleRow(rows[p], src.Pix[src.PixOffset(b.Min.X, b.Min.Y+p):], across)
			}
			row := rows[p][:len(sum)]
			for x := range sum {
				sum[x] += weight * row[x]
			}
		}
		out := dst.Pix[dst.PixOffset(at.Min.X, at.Min.Y+y):]
		out = out[:4*w]
		for x, s := 0, 0; x < len(out); x, s = x+4, s+3 {
			px, v := out[x:x+4:x+4], sum[s:s+3:s+3]
			px[0], px[1], px[2], px[3] = level(v[0]), level(v[1]), level(v[2]), 255
		}
	}
}

// scaleRow scales one row of pixels into three numbers for each of the result.
func scaleRow(out []float32, pix []uint8, across []taps) {
	for x, t := range across {
		var r, g, b float32
		at := 4 * t.first
		for _, w := range t.weights {
			px := pix[at : at+3 : at+3]
			r += w * float32(px[0])
			g += w * float32(px[1])
			b += w * float32(px[2])
			at += 4
		}
		o := out[3*x : 3*x+3 : 3*x+3]
		o[0], o[1], o[2] = r, g, b
	}
}

// level is a number of 0 to 255 as a byte, by way of 16 bits as image/color has
// it.
func level(v float32) uint8 { return uint8(min(uint32(v*257+0.5), 0xffff) >> 8) }
