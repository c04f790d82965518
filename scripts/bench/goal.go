package main

import "fmt"

// atLeast and atMost are goals with their verdict. bar is the weaker limit that
// has to hold in any case, 0 where there is none.
func atLeast(v, goal, bar float64, unit string) string {
	return verdict("at least", v >= goal, bar > 0 && v >= bar, goal, bar, unit)
}

func atMost(v, goal, bar float64, unit string) string {
	return verdict("at most", v <= goal, bar > 0 && v <= bar, goal, bar, unit)
}

func verdict(word string, reached, passed bool, goal, bar float64, unit string) string {
	text := fmt.Sprintf("%s %g%s", word, goal, unit)
	switch {
	case reached:
		return text
	case passed:
		return fmt.Sprintf("%s, **missed**; %s %g holds", text, word, bar)
	}
	return text + ", **missed**"
}
