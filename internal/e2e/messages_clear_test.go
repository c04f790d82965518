package e2e_test

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// unclear are words that belong to the inside of a program. None of them helps
// who reads a message.
var unclear = []string{
	"panic", "goroutine ", "runtime error", ".go:", "%!", "<nil>", "0xc0", "json: cannot", "json: invalid", "strconv.", "unmarshal", "map[string]",
	"interface {}", "*errors.", "user_script", "yaml: ", "context deadline exceeded", "context canceled",
}

// clearSentence checks that a text is one sentence for people: short, one line,
// readable, and without the inside of the program.
func clearSentence(t testing.TB, what, text string) {
	t.Helper()
	switch {
	case strings.TrimSpace(text) == "":
		t.Errorf("%s: there is no message", what)
	case strings.ContainsAny(strings.TrimSpace(text), "\n\r"):
		t.Errorf("%s: the message has several lines: %q", what, text)
	case len(text) > 600:
		t.Errorf("%s: the message has %d bytes: %q", what, len(text), text)
	}
	noInsides(t, what, text)
}

// noInsides checks that a longer output is fit for people.
func noInsides(t testing.TB, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s: it is not valid UTF-8: %q", what, text)
	}
	for _, word := range unclear {
		if strings.Contains(text, word) {
			t.Errorf("%s: it says %q: %s", what, word, text)
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if first, rest, ok := strings.Cut(line, ": "); ok && first != "" && strings.HasPrefix(rest, first+": ") {
			t.Errorf("%s: it says %q twice: %s", what, first, line)
		}
	}
}
