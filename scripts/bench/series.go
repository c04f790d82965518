package main

import (
	"fmt"
	"math"
	"slices"
)

// series holds one value per round.
type series []float64

func (s series) sorted() series { return slices.Sorted(slices.Values(s)) }

// median of the values; NaN if there is none.
func (s series) median() float64 { return s.percentile(50) }

// percentile by nearest rank; NaN if there is no value.
func (s series) percentile(p int) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	i := (len(s)*p + 99) / 100
	return s.sorted()[max(i, 1)-1]
}

// over returns the ratio to other, round by round.
func (s series) over(other series) series {
	var out series
	for i := range min(len(s), len(other)) {
		out = append(out, s[i]/other[i])
	}
	return out
}

// text is the median and, when there are several values, the smallest and the
// largest.
func (s series) text(unit string) string {
	if len(s) < 2 {
		return number(s.median()) + unit
	}
	sorted := s.sorted()
	return fmt.Sprintf("%s%s (%s to %s)", number(s.median()), unit, number(sorted[0]), number(sorted[len(sorted)-1]))
}

// number has about three significant digits.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "?"
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
