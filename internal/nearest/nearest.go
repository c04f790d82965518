// Package nearest finds the known word that somebody who wrote another one may
// have meant.
package nearest

import "slices"

// By returns at most n of the known words, nearest first; those that are equally
// far stay in their order. distance says how far a word is and whether it is
// near enough to be named at all.
func By(known []string, n int, distance func(known string) (far int, near bool)) []string {
	type scored struct {
		word string
		far  int
	}
	var all []scored
	for _, k := range known {
		if far, near := distance(k); near {
			all = append(all, scored{k, far})
		}
	}
	slices.SortStableFunc(all, func(a, b scored) int { return a.far - b.far })
	var words []string
	for _, s := range all[:min(n, len(all))] {
		words = append(words, s.word)
	}
	return words
}

// Distance is how many slips lead from a to b: a byte changed, added or dropped,
// or two neighbours that change places (the optimal string alignment distance).
// Its cost is the product of their lengths.
func Distance(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, above, row = above, row, before
		row[0] = i + 1
		for j := range len(b) {
			cost := above[j]
			if a[i] != b[j] {
				cost++
			}
			row[j+1] = min(cost, row[j]+1, above[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
