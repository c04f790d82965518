package configfile

import (
	"slices"
	"strings"

	"github.com/autobot-fleet/autobot/internal/nearest"
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
	if near := nearestKey(key, known); near != "" {
		return "; the nearest known key is " + near
	}
	return ""
}

// nearestKey returns the known key that was probably meant: the same name in
// another section, or a name that differs by few letters.
func nearestKey(key string, known []string) string {
	last := lastPart(key)
	near := nearest.By(known, 1, func(k string) (int, bool) {
		far := nearest.Distance(key, k)
		switch {
		case lastPart(k) == last:
			return min(far, 1), true
		case parent(k) == parent(key):
			far = nearest.Distance(last, lastPart(k))
			return far, far <= max(2, len(last)/3)
		}
		return far, far <= max(2, len(key)/4)
	})
	if len(near) == 0 {
		return ""
	}
	return near[0]
}

func lastPart(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

func parent(key string) string { return key[:max(strings.LastIndexByte(key, '.'), 0)] }
