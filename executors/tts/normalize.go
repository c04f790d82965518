package tts

import (
	"regexp"
	"unicode"
	"unicode/utf8"
)

// normalization says what is written out before an engine reads the text. Only
// what a synthesiser reads badly is touched: it knows numbers and most
// abbreviations itself.
type normalization struct {
	Numbers       bool `json:"numbers"`       // English: currency, dates, spans of years, Roman numerals, ZIP codes
	Abbreviations bool `json:"abbreviations"` // English: titles, months, units
	URLs          bool `json:"urls"`          // addresses as people say them
	Markdown      bool `json:"markdown"`      // marks removed, text kept
}

// apply normalises text. What would have to be said in words of a language is
// done for English only; other languages keep the text that stands there.
func (n normalization) apply(text string, english bool) string {
	if n.Markdown {
		text = stripMarkdown(text)
	}
	if n.URLs {
		text = sayURLs(text, english)
	}
	if n.Abbreviations && english {
		text = expandAbbreviations(text)
	}
	if n.Numbers && english {
		text = expandNumbers(expandDates(text))
	}
	return text
}

// match is one find of rewrite.
type match struct {
	groups        []string
	before, after string // the text around it
}

// rewrite replaces the finds of re that f accepts.
func rewrite(re *regexp.Regexp, s string, f func(match) (string, bool)) string {
	var out []byte
	last := 0
	for _, at := range re.FindAllStringSubmatchIndex(s, -1) {
		m := match{before: s[:at[0]], after: s[at[1]:], groups: make([]string, len(at)/2)}
		for i := range m.groups {
			if at[2*i] >= 0 {
				m.groups[i] = s[at[2*i]:at[2*i+1]]
			}
		}
		if said, ok := f(m); ok {
			out = append(append(out, s[last:at[0]]...), said...)
			last = at[1]
		}
	}
	if last == 0 {
		return s
	}
	return string(append(out, s[last:]...))
}

// inWord reports whether the find touches a letter or digit on its left or
// right, that is, whether it is only a part of a longer word.
func (m match) inWord() bool { return endsWord(m.before) || startsWord(m.after) }

func endsWord(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return s != "" && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_')
}

func startsWord(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return s != "" && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_')
}
