package nearest

import (
	"slices"
	"testing"
)

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"en-us", "en-us", 0}, {"abc", "acb", 1}, {"ulr", "url", 1}, {"ulr", "tls", 2}, {"ca", "abc", 3}} {
		if got, back := Distance(tt.a, tt.b), Distance(tt.b, tt.a); got != tt.want || back != tt.want {
			t.Errorf("%s, %s: %d and %d, want %d", tt.a, tt.b, got, back, tt.want)
		}
	}
}

func TestTheNearestComeFirst(t *testing.T) {
	t.Parallel()
	known := []string{"queues", "worker", "queue", "works", "redis"}
	within := func(word string, limit int) func(string) (int, bool) {
		return func(k string) (int, bool) { far := Distance(word, k); return far, far <= limit }
	}
	for _, tt := range []struct {
		word     string
		n, limit int
		want     []string
	}{
		{"queue", 2, 2, []string{"queue", "queues"}},
		{"wrk", 3, 3, []string{"works", "worker"}},
		{"quee", 1, 2, []string{"queue"}},
		{"nothing", 3, 2, nil},
		{"redos", 5, 1, []string{"redis"}},
	} {
		if got := By(known, tt.n, within(tt.word, tt.limit)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.word, got, tt.want)
		}
	}
	if got := By([]string{"b", "a"}, 2, func(string) (int, bool) { return 1, true }); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("equally far words change places: %v", got)
	}
}
