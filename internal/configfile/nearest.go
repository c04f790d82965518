package configfile

import (
	"slices"
	"strings"
)

// hint returns a clause that names the known key nearest to an unknown one, or
// nothing if none is near.
func (s *schema) hint(key string) string {
	var known []string
	for _, section := range s.sections() {
		if section.prefix != "" {
			known = append(known, section.prefix)
		}
		for name := range section.fields {
			known = append(known, joinKey(section.prefix, name))
		}
	}
	slices.Sort(known)
	if near := nearest(key, known); near != "" {
		return "; the nearest known key is " + near
	}
	return ""
}

// nearest returns the known key that was probably meant: the same name in
// another section, or a name that differs by few letters.
func nearest(key string, known []string) string {
	last := lastPart(key)
	best, bestCost := "", -1
	for _, k := range known {
		cost := distance(key, k)
		if lastPart(k) == last {
			cost = min(cost, 1)
		} else if parent(k) == parent(key) {
			cost = distance(last, lastPart(k))
			if cost > max(2, len(last)/3) {
				continue
			}
		} else if cost > max(2, len(key)/4) {
			continue
		}
		if bestCost < 0 || cost < bestCost {
			best, bestCost = k, cost
		}
	}
	return best
}

func lastPart(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

func parent(key string) string { return key[:max(strings.LastIndexByte(key, '.'), 0)] }

// distance is the Levenshtein distance of a and b in bytes.
func distance(a, b string) int {
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
