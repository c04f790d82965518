package ocr

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Numbers of the detector's post-processing, as PP-OCR has them.
const (
	pixelThreshold = 0.3  // a pixel above it belongs to text
	unclipRatio    = 1.6  // the detector is trained on shrunken lines
	minSide        = 3    // pixels of the map
	maxLines       = 1000 // of one picture
)

// Line is where a line of text was found.
type Line struct {
	Quad  Quad
	Score float64 // mean probability of its pixels, 0 to 1
}

// Lines finds the lines in a detector's map of width times height
// probabilities. scaleX and scaleY lead from the map to the picture. Lines
// below threshold are left out. They come in reading order: rows from top to
// bottom, each from left to right.
func Lines(probabilities []float32, width, height int, scaleX, scaleY, threshold float64) ([]Line, error) {
	if width < 1 || height < 1 || len(probabilities) != width*height {
		return nil, fmt.Errorf("the detector gives %d numbers for a map of %d x %d", len(probabilities), width, height)
	}
	seen := make([]bool, len(probabilities))
	var out []Line
	for start, p := range probabilities {
		if seen[start] || !(p > pixelThreshold) {
			continue
		}
		island, score := flood(probabilities, seen, width, height, start)
		if score < threshold || len(out) == maxLines {
			continue
		}
		q := smallestRect(outline(island, width))
		w, h := q.Width(), q.Height()
		if min(w, h) < minSide {
			continue
		}
		q = q.grow(w * h * unclipRatio / (2 * (w + h)))
		for i := range q {
			q[i] = Point{q[i].X * scaleX, q[i].Y * scaleY}
		}
		out = append(out, Line{Quad: q, Score: score})
	}
	readingOrder(out)
	return out, nil
}

// flood collects the pixels that hang together with start, and their mean.
func flood(probabilities []float32, seen []bool, width, height, start int) (island []int, mean float64) {
	seen[start] = true
	island = []int{start}
	sum := 0.0
	for i := 0; i < len(island); i++ {
		at := island[i]
		sum += float64(probabilities[at])
		x, y := at%width, at/width
		for dy := -1; dy <= 1; dy++ {
			for dx := -1; dx <= 1; dx++ {
				nx, ny := x+dx, y+dy
				if nx < 0 || ny < 0 || nx >= width || ny >= height {
					continue
				}
				if next := ny*width + nx; !seen[next] && probabilities[next] > pixelThreshold {
					seen[next] = true
					island = append(island, next)
				}
			}
		}
	}
	return island, sum / float64(len(island))
}

// outline returns the corners of the first and last pixel of each row: enough
// for a hull.
func outline(island []int, width int) []Point {
	type span struct{ low, high int }
	rows := map[int]span{}
	for _, at := range island {
		x, y := at%width, at/width
		s, ok := rows[y]
		if !ok {
			s = span{x, x}
		}
		rows[y] = span{min(s.low, x), max(s.high, x)}
	}
	points := make([]Point, 0, 4*len(rows))
	for y, s := range rows {
		l, r, t := float64(s.low), float64(s.high+1), float64(y)
		points = append(points, Point{l, t}, Point{r, t}, Point{l, t + 1}, Point{r, t + 1})
	}
	return points
}

// readingOrder sorts lines by row and column. Lines whose middles are closer
// than half a line's height are in one row.
func readingOrder(lines []Line) {
	middle := func(l Line) float64 { return (l.Quad[0].Y + l.Quad[2].Y) / 2 }
	slices.SortStableFunc(lines, func(a, b Line) int { return cmp.Compare(middle(a), middle(b)) })
	for i := 0; i < len(lines); {
		j := i + 1
		for j < len(lines) && math.Abs(middle(lines[j])-middle(lines[i])) < lines[i].Quad.Height()/2 {
			j++
		}
		slices.SortStableFunc(lines[i:j], func(a, b Line) int { return cmp.Compare(a.Quad[0].X, b.Quad[0].X) })
		i = j
	}
}
