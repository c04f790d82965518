package vision

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Box is a rectangle by two corners, X1 <= X2 and Y1 <= Y2.
type Box struct{ X1, Y1, X2, Y2 float64 }

// Area is width times height.
func (b Box) Area() float64 { return max(b.X2-b.X1, 0) * max(b.Y2-b.Y1, 0) }

// IoU is the area that both boxes share, divided by the area that they cover
// together: 0 to 1.
func (b Box) IoU(o Box) float64 {
	shared := Box{max(b.X1, o.X1), max(b.Y1, o.Y1), min(b.X2, o.X2), min(b.Y2, o.Y2)}.Area()
	union := b.Area() + o.Area() - shared
	if union <= 0 {
		return 0
	}
	return shared / union
}

// Detection is something that a model has seen.
type Detection struct {
	Class int
	Score float64 // 0 to 1
	Box   Box
}

// maxDetections is how many are kept of one picture.
const maxDetections = 300

// Suppress returns the detections, best first, without those that overlap a
// better one of the same class by more than iou (greedy non-maximum
// suppression).
func Suppress(list []Detection, iou float64) []Detection {
	slices.SortStableFunc(list, func(a, b Detection) int { return cmp.Compare(b.Score, a.Score) })
	var kept []Detection
	for _, d := range list {
		if len(kept) == maxDetections {
			break
		}
		covered := slices.ContainsFunc(kept, func(k Detection) bool { return k.Class == d.Class && k.Box.IoU(d.Box) > iou })
		if !covered {
			kept = append(kept, d)
		}
	}
	return kept
}

// A NumberError says that a model's output holds a value that is no number.
type NumberError struct {
	Index int
	Value float64
}

func (e *NumberError) Error() string {
	return fmt.Sprintf("value %d of the model's output is %v", e.Index, e.Value)
}

// CheckNumbers returns a *NumberError for the first NaN or infinity.
func CheckNumbers(values []float32) error {
	for i, v := range values {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return &NumberError{i, f}
		}
	}
	return nil
}
