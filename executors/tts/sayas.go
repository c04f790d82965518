package tts

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// sayAs is how the text of a say-as element is read.
type sayAs struct {
	kind   string // empty: as it stands
	format string // of a date
}

// parseSayAs reads the attributes of a say-as element.
func parseSayAs(attrs map[string]string) (sayAs, error) {
	s := sayAs{kind: attrs["interpret-as"], format: attrs["format"]}
	switch s.kind {
	case "characters", "spell-out", "digits":
		return s, nil
	case "date":
		if s.format == "" {
			s.format = "ymd"
		}
		if !slices.Contains(dateFormats, s.format) {
			return s, fmt.Errorf("format %q is not one of %s", short(s.format, 40), strings.Join(dateFormats, ", "))
		}
		return s, nil
	case "":
		return s, fmt.Errorf("attribute interpret-as is missing; there are characters, spell-out, digits and date")
	}
	return s, fmt.Errorf("interpret-as %q is not supported; there are characters, spell-out, digits and date", short(s.kind, 40))
}

// say returns the text as it is to be read, and whether that is final.
func (s sayAs) say(text string, english bool) (said string, exact bool) {
	switch s.kind {
	case "characters", "spell-out":
		return spell(text, english), true
	case "digits":
		return spellDigits(text), true
	case "date":
		if d, ok := parseDate(text, s.format); ok && english {
			return d.say(), true
		}
		return text, true
	}
	return text, false
}

// signs are characters that synthesisers pass over unless they are named.
var signs = map[rune]string{
	'.': "dot", ',': "comma", '-': "dash", '_': "underscore", '/': "slash", '\\': "backslash", '@': "at", ':': "colon", ';': "semicolon",
	'!': "exclamation mark", '?': "question mark", '\'': "apostrophe", '"': "quote", '(': "open parenthesis", ')': "close parenthesis",
	'#': "number sign", '*': "star", '+': "plus", '=': "equals", '&': "ampersand", '%': "percent",
}

// spell reads text letter by letter. Signs are named in English only.
func spell(text string, english bool) string {
	var out []string
	for _, r := range text {
		switch name, known := signs[r]; {
		case unicode.IsSpace(r):
		case known && english:
			out = append(out, name)
		default:
			out = append(out, string(unicode.ToUpper(r)))
		}
	}
	return strings.Join(out, " ")
}

// spellDigits separates the digits of text, which are then read one by one.
func spellDigits(text string) string {
	var b strings.Builder
	before := ' '
	for _, r := range text {
		if unicode.IsDigit(r) && !unicode.IsSpace(before) {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
		before = r
	}
	return b.String()
}
