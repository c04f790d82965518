package executors

import (
	"strings"

	"github.com/autobot-fleet/autobot/internal/nearest"
)

// Nearest returns at most n of the candidates that somebody who wrote word may
// have meant, nearest first. Those that are too far away are left out. Upper
// and lower case are the same.
func Nearest(word string, candidates []string, n int) []string {
	limit := max(2, len(word)/2)
	word = strings.ToLower(word)
	return nearest.By(candidates, n, func(c string) (int, bool) {
		c = strings.ToLower(c)
		far := nearest.Distance(short(word), short(c))
		return far, far <= limit || (len(word) >= 3 && strings.Contains(c, word))
	})
}

// short cuts long words: nobody mistypes beyond that.
func short(word string) string { return word[:min(len(word), 64)] }
