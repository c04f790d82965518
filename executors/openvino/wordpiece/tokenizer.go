package wordpiece

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxWord is the longest word in runes that is taken apart; a longer one is
// unknown.
const maxWord = 100

// maxVocab bounds the vocabulary, in tokens.
const maxVocab = 1 << 20

// The special tokens of a vocabulary.
const (
	tokenUnknown = "[UNK]"
	tokenStart   = "[CLS]"
	tokenEnd     = "[SEP]"
	tokenPad     = "[PAD]"
	tokenMask    = "[MASK]"
)

// Options change how text is read.
type Options struct {
	// Cased keeps capitals and accents, for models that were trained with them.
	Cased bool
	// PlainSpecials reads the name of a special token in a text, such as
	// "[MASK]", as ordinary text. Without it, it is that token, as in the
	// libraries that models come from.
	PlainSpecials bool
}

// Tokenizer turns text into ids. It may be used by many goroutines.
type Tokenizer struct {
	o       Options
	ids     map[string]int64
	longest int // bytes of the longest token
	size    int
	unknown int64
	start   int64
	end     int64
	pad     int64
}

// Load reads a vocabulary: one token a line, its id is the line's number from
// 0. It has to have the tokens [UNK], [CLS], [SEP] and [PAD].
func Load(path string, o Options) (*Tokenizer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the vocabulary: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	var tokens []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if len(tokens) == maxVocab {
			return nil, fmt.Errorf("vocabulary %s has more than %d tokens", path, maxVocab)
		}
		tokens = append(tokens, strings.TrimRight(lines.Text(), "\r"))
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the vocabulary %s: %w", path, err)
	}
	t, err := New(tokens, o)
	if err != nil {
		return nil, fmt.Errorf("vocabulary %s: %w", path, err)
	}
	return t, nil
}

// New makes a tokenizer of a vocabulary.
func New(tokens []string, o Options) (*Tokenizer, error) {
	t := &Tokenizer{o: o, ids: make(map[string]int64, len(tokens)), size: len(tokens)}
	for i, token := range tokens {
		if _, twice := t.ids[token]; !twice {
			t.ids[token] = int64(i)
			t.longest = max(t.longest, len(token))
		}
	}
	for _, special := range []struct {
		token string
		id    *int64
	}{{tokenUnknown, &t.unknown}, {tokenStart, &t.start}, {tokenEnd, &t.end}, {tokenPad, &t.pad}} {
		var ok bool
		if *special.id, ok = t.ids[special.token]; !ok {
			return nil, fmt.Errorf("has no token %s", special.token)
		}
	}
	return t, nil
}

// Pad is the id that fills up shorter texts of a batch.
func (t *Tokenizer) Pad() int64 { return t.pad }

// Size is the number of lines of the vocabulary; each id is below it.
func (t *Tokenizer) Size() int { return t.size }

// Encode returns the ids of a text between those of [CLS] and [SEP], at most
// limit of them (2 or more), and how many the whole text has.
func (t *Tokenizer) Encode(text string, limit int) (ids []int64, whole int) {
	ids = append(ids, t.start)
	for _, part := range t.parts(text) {
		if part.special {
			ids = append(ids, t.ids[part.text])
			continue
		}
		for _, word := range words(part.text, t.o.Cased) {
			ids = t.pieces(ids, word)
		}
	}
	whole = len(ids) + 1
	ids = ids[:min(len(ids), max(limit, 2)-1)]
	return append(ids, t.end), whole
}

// part is a stretch of text, or a special token.
type part struct {
	text    string
	special bool
}

// parts finds the special tokens that stand in a text.
func (t *Tokenizer) parts(text string) []part {
	if t.o.PlainSpecials || !strings.Contains(text, "[") {
		return []part{{text: text}}
	}
	var out []part
	for text != "" {
		at, token := t.firstSpecial(text)
		if at < 0 {
			return append(out, part{text: text})
		}
		if at > 0 {
			out = append(out, part{text: text[:at]})
		}
		out = append(out, part{text: token, special: true})
		text = text[at+len(token):]
	}
	return out
}

func (t *Tokenizer) firstSpecial(text string) (at int, token string) {
	at = -1
	for _, s := range []string{tokenUnknown, tokenStart, tokenEnd, tokenPad, tokenMask} {
		if _, known := t.ids[s]; !known {
			continue
		}
		if i := strings.Index(text, s); i >= 0 && (at < 0 || i < at) {
			at, token = i, s
		}
	}
	return at, token
}

// pieces appends the ids of one word: the longest token that it starts with,
// then the longest continuation ("##ing") of the rest, and so on. A word that
// cannot be taken apart whole is unknown.
func (t *Tokenizer) pieces(ids []int64, word string) []int64 {
	if len(word) > maxWord && utf8.RuneCountInString(word) > maxWord {
		return append(ids, t.unknown)
	}
	from := len(ids)
	prefix := ""
	for rest := word; rest != ""; {
		end := min(len(rest), t.longest)
		id, ok := int64(0), false
		for ; end > 0; end-- {
			if end < len(rest) && !utf8.RuneStart(rest[end]) {
				continue
			}
			if id, ok = t.ids[prefix+rest[:end]]; ok {
				break
			}
		}
		if !ok {
			return append(slices.Delete(ids, from, len(ids)), t.unknown)
		}
		ids = append(ids, id)
		rest, prefix = rest[end:], "##"
	}
	return ids
}
