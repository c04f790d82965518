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

// Distance is the Levenshtein distance of a and b: how many bytes must be
// changed, added or dropped to get from one to the other. Its cost is the
// product of their lengths.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
