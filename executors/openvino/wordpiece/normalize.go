package wordpiece

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// words normalises text and splits it into words and single punctuation marks:
// control characters go, white space separates, Chinese characters stand alone,
// and unless cased, accents and capitals go.
func words(text string, cased bool) []string {
	clean := cleaned(text)
	if !cased {
		clean = strings.Map(unaccented, norm.NFD.String(clean))
	}
	var out []string
	for field := range strings.FieldsFuncSeq(clean, unicode.IsSpace) {
		out = append(out, splitMarks(field)...)
	}
	return out
}

// cleaned drops what is no text and puts spaces around Chinese characters.
func cleaned(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case r == unicode.ReplacementChar, unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co):
		case unicode.Is(chinese, r):
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unaccented drops combining marks and lowers each character by itself: a sigma
// at the end of a word is like any other.
func unaccented(r rune) rune {
	if unicode.Is(unicode.Mn, r) {
		return -1
	}
	return unicode.ToLower(r)
}

// splitMarks makes each punctuation mark a word of its own.
func splitMarks(field string) []string {
	var out []string
	start := 0
	for i, r := range field {
		if !isMark(r) {
			continue
		}
		if i > start {
			out = append(out, field[start:i])
		}
		start = i + len(string(r))
		out = append(out, field[i:start])
	}
	if start < len(field) {
		out = append(out, field[start:])
	}
	return out
}

// isMark reports whether r is punctuation; all symbols of ASCII count as such.
func isMark(r rune) bool {
	if r < 0x80 {
		return r > ' ' && r < 0x7f && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	return unicode.IsPunct(r)
}

// chinese are the blocks that BERT's tokenizer calls Chinese characters.
var chinese = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x3400, Hi: 0x4dbf, Stride: 1}, {Lo: 0x4e00, Hi: 0x9fff, Stride: 1}, {Lo: 0xf900, Hi: 0xfaff, Stride: 1}},
	R32: []unicode.Range32{
		{Lo: 0x20000, Hi: 0x2a6df, Stride: 1}, {Lo: 0x2a700, Hi: 0x2b73f, Stride: 1}, {Lo: 0x2b740, Hi: 0x2b81f, Stride: 1},
		{Lo: 0x2b920, Hi: 0x2ceaf, Stride: 1}, {Lo: 0x2f800, Hi: 0x2fa1f, Stride: 1},
	},
}
