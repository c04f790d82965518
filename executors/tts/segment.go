package tts

import (
	"strings"
	"time"
	"unicode"
)

// Limits of a piece of text given to an engine, in runes.
const (
	maxSegmentRunes = 200
	minSentenceCut  = 50 // a long piece is not cut at a sentence end before this
)

// piece is the text of one segment, or a silence.
type piece struct {
	text      string
	continues bool   // the sentence goes on: no pause of the engine after it
	manner    manner // zero: as the task asks

	silence time.Duration // where text is empty
}

// split cuts text into pieces of at most maxSegmentRunes runes: by paragraph
// and sentence, and a longer sentence after the last sentence end beyond
// minSentenceCut, else at the last space, else hard. White space becomes single
// spaces; no other rune is lost, added or moved.
func split(text string) []piece {
	var out []piece
	for _, sentence := range joinSilent(sentences(text)) {
		out = append(out, cut([]rune(sentence))...)
	}
	return out
}

// sentences splits text at blank lines and after sentence ends.
func sentences(text string) []string {
	var out []string
	for _, par := range paragraphs(text) {
		runes := []rune(par)
		start := 0
		for i := 0; i < len(runes); i++ {
			end, ok := sentenceEnd(runes, start, i)
			if !ok {
				continue
			}
			out = appendTrimmed(out, runes[start:end])
			start, i = end, end-1
		}
		out = appendTrimmed(out, runes[start:])
	}
	return out
}

func appendTrimmed(out []string, runes []rune) []string {
	if s := strings.TrimSpace(string(runes)); s != "" {
		out = append(out, s)
	}
	return out
}

// paragraphs splits at blank lines and turns all other white space into single
// spaces.
func paragraphs(text string) []string {
	var out []string
	var par []string
	flush := func() {
		if len(par) > 0 {
			out = append(out, strings.Join(par, " "))
			par = nil
		}
	}
	for line := range strings.Lines(strings.ReplaceAll(text, "\r\n", "\n")) {
		words := strings.Fields(line)
		if len(words) == 0 {
			flush()
			continue
		}
		par = append(par, words...)
	}
	flush()
	return out
}

// sentenceEnd reports whether a sentence that began at start ends with the
// terminator at i, and if so where the next one begins.
func sentenceEnd(r []rune, start, i int) (next int, ok bool) {
	wide := isWideTerminator(r[i])
	if !wide && !isTerminator(r[i]) {
		return 0, false
	}
	end := i + 1
	for end < len(r) && (isTerminator(r[end]) || isWideTerminator(r[end])) {
		end++
	}
	for end < len(r) && isCloser(r[end]) {
		end++
	}
	if wide {
		return end, true // these scripts put no space between sentences
	}
	if end < len(r) && !unicode.IsSpace(r[end]) {
		return 0, false // 3.14, example.com
	}
	if r[i] == '.' && end == i+1 && endsAbbreviation(r, start, i) {
		return 0, false
	}
	if n := nextWord(r, end); n < len(r) && unicode.IsLower(r[n]) && r[i] == '.' {
		return 0, false // "approx. five", "etc. and so on"
	}
	return end, true
}

func nextWord(r []rune, i int) int {
	for i < len(r) && (unicode.IsSpace(r[i]) || unicode.Is(unicode.Ps, r[i]) || r[i] == '"') {
		i++
	}
	return i
}

func isTerminator(r rune) bool {
	switch r {
	case '.', '!', '?', '…', '؟', '۔':
		return true
	}
	return false
}

func isWideTerminator(r rune) bool {
	switch r {
	case '。', '！', '？', '।', '॥', '｡':
		return true
	}
	return false
}

func isCloser(r rune) bool {
	return r == '"' || r == '\'' || unicode.In(r, unicode.Pe, unicode.Pf)
}

// noSentenceEnd are words whose full stop does not end a sentence, lower case.
var noSentenceEnd = map[string]bool{
	"mr": true, "mrs": true, "ms": true, "mx": true, "dr": true, "prof": true, "st": true, "mt": true,
	"rev": true, "gen": true, "sen": true, "rep": true, "gov": true, "capt": true, "col": true, "lt": true, "sgt": true,
	"vs": true, "fig": true, "approx": true, "dept": true, "est": true, "e.g": true, "i.e": true, "cf": true,
	"jan": true, "feb": true, "apr": true, "aug": true, "sept": true, "oct": true, "nov": true, "dec": true,
}

// endsAbbreviation reports whether the full stop at i belongs to the word
// before it: a known abbreviation, an initial, or the number of a list item
// that opens the sentence.
func endsAbbreviation(r []rune, start, i int) bool {
	w := i
	for w > start && !unicode.IsSpace(r[w-1]) && !unicode.In(r[w-1], unicode.Ps, unicode.Pi) && r[w-1] != '"' {
		w--
	}
	word := r[w:i]
	switch {
	case len(word) == 0:
		return false
	case len(word) == 1 && unicode.IsUpper(word[0]) && word[0] != 'I':
		return true
	case noSentenceEnd[strings.ToLower(string(word))]:
		return true
	}
	digits := strings.IndexFunc(string(word), func(c rune) bool { return !unicode.IsDigit(c) }) < 0
	return digits && strings.TrimSpace(string(r[start:w])) == "" && len(word) <= 3
}

// joinSilent glues pieces in which nothing can be spoken, such as a lone dash,
// to a neighbour, because an engine may answer them with no audio at all.
func joinSilent(in []string) []string {
	var out []string
	carry := ""
	for _, s := range in {
		switch {
		case speakable(s):
			if carry != "" {
				s, carry = carry+" "+s, ""
			}
			out = append(out, s)
		case len(out) > 0:
			out[len(out)-1] += " " + s
		case carry != "":
			carry += " " + s
		default:
			carry = s
		}
	}
	if carry != "" {
		out = append(out, carry)
	}
	return out
}

// speakable reports whether s holds a letter, a digit or a symbol.
func speakable(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsSymbol(r) || strings.ContainsRune(`%&@#*/\`, r)
	})
}

// cut brings one sentence under the limit.
func cut(r []rune) []piece {
	var out []piece
	for len(r) > maxSegmentRunes {
		at := cutPoint(r)
		if s := strings.TrimSpace(string(r[:at])); s != "" {
			out = append(out, piece{text: s, continues: true})
		}
		for at < len(r) && unicode.IsSpace(r[at]) {
			at++
		}
		r = r[at:]
	}
	if len(r) > 0 {
		out = append(out, piece{text: string(r)})
	} else if n := len(out); n > 0 {
		out[n-1].continues = false
	}
	return out
}

// cutPoint returns where the first piece of r ends, 1..maxSegmentRunes.
func cutPoint(r []rune) int {
	// The rune after the limit counts too: a space there ends a full piece.
	for i := maxSegmentRunes - 1; i > minSentenceCut; i-- {
		if isTerminator(r[i]) && unicode.IsSpace(r[i+1]) {
			return i + 1
		}
	}
	for i := maxSegmentRunes; i > 0; i-- {
		if unicode.IsSpace(r[i]) {
			return i
		}
	}
	// Nowhere to cut; at least keep a letter and its accents together.
	for i := maxSegmentRunes; i > maxSegmentRunes-20; i-- {
		if !joinsPrevious(r[i]) && !isJoiner(r[i-1]) {
			return i
		}
	}
	return maxSegmentRunes
}

func joinsPrevious(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Mc) || isJoiner(r) || (r >= 0x1F3FB && r <= 0x1F3FF)
}

func isJoiner(r rune) bool { return r == '\u200d' }
