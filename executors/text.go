package executors

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Lengths of texts that cross the process boundary. Longer ones are cut and
// say so.
const (
	maxLogText   = 16 << 10 // bytes of one log message
	maxErrorText = 4 << 10  // bytes of an error's message, hint or detail
	maxWord      = 64       // runes of a stage or unit
	maxGiven     = 80       // runes of a user's value in an error message
)

// validUTF8 replaces what proto3 strings may not hold.
func validUTF8(s string) string {
	return strings.ToValidUTF8(s, string(utf8.RuneError))
}

// cutBytes returns valid UTF-8 of at most limit bytes, and says how much is
// missing.
func cutBytes(s string, limit int) string {
	s = validUTF8(s)
	if len(s) <= limit {
		return s
	}
	const room = 40 // for the note
	end := max(limit-room, 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%s … [%d bytes cut]", s[:end], len(s)-end)
}

// cutRunes returns valid UTF-8 of at most limit runes.
func cutRunes(s string, limit int) string {
	s = validUTF8(s)
	if len(s) <= limit || utf8.RuneCountInString(s) <= limit {
		return s
	}
	n := 0
	for i := range s {
		if n == limit-1 {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// given shows a JSON value that a user gave, on one line and short.
func given(raw []byte) string {
	s := strings.Join(strings.Fields(validUTF8(string(raw[:min(len(raw), 8*maxGiven)]))), " ")
	return cutRunes(s, maxGiven)
}

// validJSONText makes JSON that may hold broken UTF-8 in its strings clean.
func validJSONText(raw []byte) []byte {
	if utf8.Valid(raw) {
		return raw
	}
	return bytes.ToValidUTF8(raw, []byte(string(utf8.RuneError)))
}
