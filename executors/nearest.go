package executors

import (
	"slices"
	"strings"
)

// Nearest returns at most n of the candidates that somebody who wrote word may
// have meant, nearest first. Those that are too far away are left out.
func Nearest(word string, candidates []string, n int) []string {
	type scored struct {
		name string
		far  int
	}
	limit := max(2, len(word)/2)
	var near []scored
	for _, c := range candidates {
		far := distance(strings.ToLower(word), strings.ToLower(c))
		if far <= limit || (len(word) >= 3 && strings.Contains(strings.ToLower(c), strings.ToLower(word))) {
			near = append(near, scored{c, far})
		}
	}
	slices.SortStableFunc(near, func(a, b scored) int { return a.far - b.far })
	var names []string
	for _, s := range near[:min(n, len(near))] {
		names = append(names, s.name)
	}
	return names
}

// distance is the Levenshtein distance in bytes. Long words are cut: nobody
// mistypes beyond that.
func distance(a, b string) int {
	const longest = 64
	a, b = a[:min(len(a), longest)], b[:min(len(b), longest)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j]+1, row[j+1]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
