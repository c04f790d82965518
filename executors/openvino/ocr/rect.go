package ocr

import (
	"cmp"
	"math"
	"slices"
)

// Point is a place in a picture, in pixels.
type Point struct{ X, Y float64 }

func (p Point) minus(q Point) Point      { return Point{p.X - q.X, p.Y - q.Y} }
func (p Point) plus(q Point) Point       { return Point{p.X + q.X, p.Y + q.Y} }
func (p Point) times(f float64) Point    { return Point{p.X * f, p.Y * f} }
func (p Point) dot(q Point) float64      { return p.X*q.X + p.Y*q.Y }
func (p Point) length() float64          { return math.Hypot(p.X, p.Y) }
func cross(o, a, b Point) float64        { return (a.X-o.X)*(b.Y-o.Y) - (a.Y-o.Y)*(b.X-o.X) }
func (p Point) distance(q Point) float64 { return p.minus(q).length() }

// Quad is a line of text by its corners: top left, top right, bottom right,
// bottom left, as the text is read.
type Quad [4]Point

// Width is the length of its top.
func (q Quad) Width() float64 { return q[0].distance(q[1]) }

// Height is the length of its left side.
func (q Quad) Height() float64 { return q[0].distance(q[3]) }

// hull returns the convex hull of points, counter-clockwise (monotone chain,
// Andrew, 1979).
func hull(points []Point) []Point {
	slices.SortFunc(points, func(a, b Point) int { return cmp.Or(cmp.Compare(a.X, b.X), cmp.Compare(a.Y, b.Y)) })
	points = slices.Compact(points)
	if len(points) < 3 {
		return points
	}
	half := func(list []Point) []Point {
		var out []Point
		for _, p := range list {
			for len(out) >= 2 && cross(out[len(out)-2], out[len(out)-1], p) <= 0 {
				out = out[:len(out)-1]
			}
			out = append(out, p)
		}
		return out[:len(out)-1]
	}
	lower := half(points)
	slices.Reverse(points)
	return append(lower, half(points)...)
}

// smallestRect returns the rectangle of the smallest area around points; one of
// its sides lies on the hull (Freeman and Shapira, 1975).
func smallestRect(points []Point) Quad {
	h := hull(points)
	if len(h) == 0 {
		return Quad{}
	}
	best, bestArea := Quad{h[0], h[len(h)-1], h[len(h)-1], h[0]}, math.Inf(1)
	for i, p := range h {
		edge := h[(i+1)%len(h)].minus(p)
		if edge.length() == 0 {
			continue
		}
		u := edge.times(1 / edge.length())
		v := Point{-u.Y, u.X}
		low, high := Point{math.Inf(1), math.Inf(1)}, Point{math.Inf(-1), math.Inf(-1)}
		for _, q := range h {
			a, b := q.dot(u), q.dot(v)
			low = Point{min(low.X, a), min(low.Y, b)}
			high = Point{max(high.X, a), max(high.Y, b)}
		}
		if area := (high.X - low.X) * (high.Y - low.Y); area < bestArea {
			bestArea = area
			at := func(a, b float64) Point { return u.times(a).plus(v.times(b)) }
			best = Quad{at(low.X, low.Y), at(high.X, low.Y), at(high.X, high.Y), at(low.X, high.Y)}
		}
	}
	return upright(best)
}

// upright orders the corners so that the text runs from left to right: the side
// that is closest to a level one is the top. A quad twice as high as wide is
// read along its long side.
func upright(q Quad) Quad {
	best, bestScore := q, math.Inf(-1)
	for range 2 {
		for range 4 {
			q = Quad{q[1], q[2], q[3], q[0]}
			top, down := q[1].minus(q[0]), q[3].minus(q[0])
			if cross(q[0], q[1], q[3]) < 0 || top.length() == 0 {
				continue // mirrored
			}
			score := top.X / top.length()
			if down.length() > 1.5*top.length() {
				score -= 10 // a column of text is turned
			}
			if score > bestScore {
				best, bestScore = q, score
			}
		}
		q = Quad{q[3], q[2], q[1], q[0]}
	}
	return best
}

// grow moves each side of a rectangle outward by d.
func (q Quad) grow(d float64) Quad {
	w, h := q.Width(), q.Height()
	u, v := Point{1, 0}, Point{0, 1}
	if w > 0 {
		u = q[1].minus(q[0]).times(1 / w)
		v = Point{-u.Y, u.X}
	} else if h > 0 {
		v = q[3].minus(q[0]).times(1 / h)
		u = Point{v.Y, -v.X}
	}
	a, b := u.times(d), v.times(d)
	return Quad{q[0].minus(a).minus(b), q[1].plus(a).minus(b), q[2].plus(a).plus(b), q[3].minus(a).plus(b)}
}
