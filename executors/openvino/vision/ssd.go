package vision

import (
	"fmt"
	"math"
)

// anchor is a box that an SSD model starts from, as parts of the input's sides.
type anchor struct{ x, y, w, h float64 }

// The anchors of MediaPipe's SSD models (its ssd_anchors_calculator): one layer
// for each stride, scales that rise evenly.
const (
	ssdMinScale = 0.2
	ssdMaxScale = 0.95
)

var (
	ssdStrides = []int{16, 32, 64, 128, 256, 512}
	ssdRatios  = []float64{1, 2, 0.5, 3, 0.3333}
)

// ssdAnchors returns the anchors for a square input, in the order of the
// model's output: by layer, row, column, and shape.
func ssdAnchors(side int) []anchor {
	scale := func(layer int) float64 {
		if layer >= len(ssdStrides) {
			return 1
		}
		return ssdMinScale + (ssdMaxScale-ssdMinScale)*float64(layer)/float64(len(ssdStrides)-1)
	}
	var out []anchor
	for layer, stride := range ssdStrides {
		type shape struct{ scale, ratio float64 }
		var shapes []shape
		if layer == 0 { // the lowest layer has fewer, and a small one
			shapes = []shape{{0.1, 1}, {scale(0), 2}, {scale(0), 0.5}}
		} else {
			for _, r := range ssdRatios {
				shapes = append(shapes, shape{scale(layer), r})
			}
			shapes = append(shapes, shape{math.Sqrt(scale(layer) * scale(layer+1)), 1})
		}
		cells := (side + stride - 1) / stride
		for y := range cells {
			for x := range cells {
				for _, s := range shapes {
					root := math.Sqrt(s.ratio)
					out = append(out, anchor{
						x: (float64(x) + 0.5) / float64(cells), y: (float64(y) + 0.5) / float64(cells),
						w: s.scale * root, h: s.scale / root,
					})
				}
			}
		}
	}
	return out
}

// SSD reads the output of an SSD model with a square input of side pixels:
// boxes [1,n,4] as y, x, h, w relative to the anchors, and logits [1,n,c] whose
// class 0 is the background. The boxes are in pixels of the input.
func SSD(boxes, logits []float32, side int, threshold float64) ([]Detection, error) {
	anchors := ssdAnchors(side)
	n := len(anchors)
	if len(boxes) != 4*n || len(logits)%n != 0 || len(logits)/n < 2 {
		return nil, fmt.Errorf("the model gives %d numbers of boxes and %d of classes, %d anchors need %d and a multiple of %d", len(boxes), len(logits), n, 4*n, n)
	}
	if err := CheckNumbers(boxes); err != nil {
		return nil, fmt.Errorf("boxes: %w", err)
	}
	if err := CheckNumbers(logits); err != nil {
		return nil, fmt.Errorf("classes: %w", err)
	}
	classes := len(logits) / n
	least := math.Log(threshold / (1 - threshold)) // the logit of the threshold
	var out []Detection
	for i, a := range anchors {
		row := logits[i*classes : (i+1)*classes]
		best := 1
		for c := 2; c < classes; c++ {
			if row[c] > row[best] {
				best = c
			}
		}
		if float64(row[best]) < least {
			continue
		}
		code := boxes[4*i : 4*i+4]
		y, x := float64(code[0])/10*a.h+a.y, float64(code[1])/10*a.w+a.x
		h, w := math.Exp(float64(code[2])/5)*a.h, math.Exp(float64(code[3])/5)*a.w
		s := float64(side)
		out = append(out, Detection{
			Class: best, Score: 1 / (1 + math.Exp(-float64(row[best]))),
			Box: Box{X1: (x - w/2) * s, Y1: (y - h/2) * s, X2: (x + w/2) * s, Y2: (y + h/2) * s},
		})
	}
	return out, nil
}
