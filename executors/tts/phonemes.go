package tts

import (
	"context"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// clause is a part of a sentence between two marks, and the mark that ends it.
type clause struct {
	text string
	mark rune // one of , : ; . ! ? or 0
}

// clauses splits text where a neural voice hears a mark. A mark inside of a
// word or number (3.14, 10:30) is a part of it.
func clauses(text string) []clause {
	var out []clause
	runes := []rune(text)
	start := 0
	add := func(end int, mark rune) {
		if s := strings.TrimSpace(string(runes[start:end])); s != "" {
			out = append(out, clause{s, mark})
		} else if n := len(out); n > 0 && ends(mark) {
			out[n-1].mark = mark // "what,?"
		}
	}
	for i, r := range runes {
		if !strings.ContainsRune(",:;.!?", r) {
			continue
		}
		after := i + 1
		for after < len(runes) && (isCloser(runes[after]) || strings.ContainsRune(",:;.!?", runes[after])) {
			after++
		}
		if after < len(runes) && !unicode.IsSpace(runes[after]) {
			continue
		}
		add(i, r)
		start = i + 1
	}
	add(len(runes), 0)
	return out
}

func ends(mark rune) bool { return mark == '.' || mark == '!' || mark == '?' }

// phonemizer turns words into the International Phonetic Alphabet, as
// espeak-ng does it for a voice.
type phonemizer interface {
	phonemes(ctx context.Context, voice, text, dir string) (string, error)
}

// phonemeSentences returns the phonemes of text, one string for each sentence,
// with the marks where they stood. It is the way of Piper's own programs: each
// clause is turned by espeak-ng, then its mark is put back.
func phonemeSentences(ctx context.Context, p phonemizer, voice, text, dir string) ([]string, error) {
	var out []string
	var sentence strings.Builder
	flush := func() {
		if s := strings.TrimSpace(sentence.String()); s != "" {
			out = append(out, norm.NFD.String(s))
		}
		sentence.Reset()
	}
	for _, c := range clauses(text) {
		ipa, err := p.phonemes(ctx, voice, c.text, dir)
		if err != nil {
			return nil, err
		}
		if ipa == "" {
			continue // nothing in it is spoken
		}
		sentence.WriteString(ipa)
		switch {
		case ends(c.mark):
			sentence.WriteRune(c.mark)
			flush()
		case c.mark != 0:
			sentence.WriteRune(c.mark)
			sentence.WriteByte(' ')
		default:
			sentence.WriteByte(' ')
		}
	}
	flush()
	return out, nil
}

// phonemes asks espeak-ng for the phonemes of text in one of its voices. Several
// lines become one.
func (e *Espeak) phonemes(ctx context.Context, voice, text, dir string) (string, error) {
	c, err := e.command("-q", "--ipa", "-b", "1", "-v", voice, "--stdin")
	if err != nil {
		return "", err
	}
	c.dir, c.stdin = dir, literal(text)+"\n"
	out, _, err := c.run(ctx)
	if err != nil {
		return "", e.fault(ctx, err)
	}
	return strings.Join(strings.Fields(out), " "), nil
}
