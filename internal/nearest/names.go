package nearest

import "strings"

// longest is how many bytes of a word are compared: nobody mistypes beyond that.
const longest = 64

// Names returns at most n of the known names that somebody who wrote word may
// have meant: those that begin with it, then those that hold it, then those
// that are at most half of its length in slips away and have a byte in common. Nothing may be near. Upper
// and lower case are the same.
func Names(word string, known []string, n int) []string {
	word = strings.ToLower(word)
	return By(known, n, func(k string) (int, bool) {
		k = strings.ToLower(k)
		far := Distance(word[:min(len(word), longest)], k[:min(len(k), longest)]) // at most longest
		switch {
		case len(word) >= 2 && strings.HasPrefix(k, word):
			return far - 2*(longest+1), true
		case len(word) >= 3 && strings.Contains(k, word):
			return far - (longest + 1), true
		}
		return far, far <= min(len(word), longest)/2 && far < len(k)
	})
}
