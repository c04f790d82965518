package tts

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

var (
	mdFence    = regexp.MustCompile("^\\s{0,3}(```|~~~)")
	mdHeading  = regexp.MustCompile(`^\s{0,3}#{1,6}\s+(.*?)(\s+#+)?\s*$`)
	mdRule     = regexp.MustCompile(`^\s*(-(\s*-){2,}|\*(\s*\*){2,}|_(\s*_){2,}|={3,})\s*$`)
	mdQuote    = regexp.MustCompile(`^\s{0,3}(>\s?)+`)
	mdBullet   = regexp.MustCompile(`^\s*[-*+]\s+(\[[ xX]\]\s+)?(\S.*)$`)
	mdNumbered = regexp.MustCompile(`^\s*\d{1,3}[.)]\s+\S`)
	mdTableBar = regexp.MustCompile(`^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)+\|?\s*$`)
	mdTableRow = regexp.MustCompile(`^\s*\|(.*)\|\s*$`)

	mdImage  = regexp.MustCompile(`!\[([^\]\n]*)\]\([^()\s]*(\s+"[^"\n]*")?\)`)
	mdLink   = regexp.MustCompile(`\[([^\[\]\n]+)\]\([^()\s]*(\s+"[^"\n]*")?\)`)
	mdAuto   = regexp.MustCompile(`<((https?://|mailto:)[^<>\s]+)>`)
	mdCode   = regexp.MustCompile("`+([^`\n]+)`+")
	mdStrike = regexp.MustCompile(`~~(\S(?:[^~\n]*\S)?)~~`)
	mdBold   = regexp.MustCompile(`\*\*(\S(?:[^*\n]*\S)?)\*\*`)
	mdStrong = regexp.MustCompile(`__(\S(?:[^_\n]*\S)?)__`)
	mdItalic = regexp.MustCompile(`\*(\S(?:[^*\n]*\S)?)\*`)
	mdEm     = regexp.MustCompile(`_(\S(?:[^_\n]*\S)?)_`)
)

// stripMarkdown removes the marks of Markdown and keeps what they mark; of
// links and images the text stays and the address goes. Headings, list items
// and table rows become sentences, so that there is a pause after them.
func stripMarkdown(text string) string {
	var out []string
	fenced := false
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		if mdFence.MatchString(line) {
			fenced = !fenced
			out = append(out, "")
			continue
		}
		if fenced {
			out = append(out, line)
			continue
		}
		out = append(out, stripLine(line))
	}
	return strings.Join(out, "\n")
}

func stripLine(line string) string {
	line = mdQuote.ReplaceAllString(line, "")
	switch {
	case mdRule.MatchString(line), mdTableBar.MatchString(line):
		return ""
	case mdHeading.MatchString(line):
		line = mdHeading.FindStringSubmatch(line)[1]
		return "\n" + asSentence(stripInline(line)) + "\n"
	case mdBullet.MatchString(line):
		return asSentence(stripInline(mdBullet.FindStringSubmatch(line)[2]))
	case mdNumbered.MatchString(line):
		return asSentence(stripInline(line))
	case mdTableRow.MatchString(line):
		return asSentence(stripInline(cells(mdTableRow.FindStringSubmatch(line)[1])))
	}
	return stripInline(line)
}

func stripInline(s string) string {
	s = mdImage.ReplaceAllString(s, "$1")
	s = mdLink.ReplaceAllString(s, "$1")
	s = mdAuto.ReplaceAllString(s, "$1")
	s = mdCode.ReplaceAllString(s, "$1")
	for _, re := range []*regexp.Regexp{mdStrike, mdBold, mdStrong, mdItalic, mdEm} {
		// Inside a word the mark is a letter like any other: 2*3*4, snake_case.
		s = rewrite(re, s, func(m match) (string, bool) { return m.groups[1], !m.inWord() })
	}
	return s
}

func cells(row string) string {
	var out []string
	for cell := range strings.SplitSeq(row, "|") {
		if cell = strings.TrimSpace(cell); cell != "" {
			out = append(out, cell)
		}
	}
	return strings.Join(out, ", ")
}

// asSentence gives s a full stop unless it ends with a mark of its own.
func asSentence(s string) string {
	s = strings.TrimSpace(s)
	r, _ := utf8.DecodeLastRuneInString(s)
	if s == "" || isTerminator(r) || isWideTerminator(r) || strings.ContainsRune(",;:", r) {
		return s
	}
	return s + "."
}
