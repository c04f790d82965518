package tts

import (
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// plan turns the text of a job into the pieces to speak, in order.
func (j job) plan() []piece {
	english := j.voice.english()
	if j.passages == nil {
		return split(j.normalize.apply(j.text, english))
	}
	var out []piece
	for _, p := range j.passages {
		if p.text == "" {
			if n := len(out); n > 0 {
				out[n-1].continues = true // the silence takes the place of the engine's pause
			}
			out = append(out, piece{silence: p.silence})
			continue
		}
		text := p.text
		if !p.exact {
			normalize := j.normalize
			normalize.Markdown = false // the marks of SSML are its elements
			text = normalize.apply(text, english)
		}
		text = attach(out, text)
		pieces := split(text)
		if len(pieces) == 0 {
			continue
		}
		for i := range pieces {
			pieces[i].manner = p.manner
		}
		last := &pieces[len(pieces)-1]
		last.continues = !p.ends && !ended(text)
		out = append(out, pieces...)
	}
	return trim(out)
}

// attach gives the marks that open text, such as the full stop after an
// element, to the text before it, and returns the rest.
func attach(out []piece, text string) string {
	n := len(out)
	if n == 0 || out[n-1].text == "" {
		return text
	}
	marks := text
	if at := strings.IndexFunc(text, unicode.IsSpace); at >= 0 && speakable(text) {
		marks = text[:at]
	}
	if marks == "" || speakable(marks) {
		return text
	}
	out[n-1].text += strings.TrimSpace(marks)
	out[n-1].continues = !ended(marks)
	return text[len(marks):]
}

// ended reports whether text ends with the end of a sentence.
func ended(text string) bool {
	r, _ := utf8.DecodeLastRuneInString(strings.TrimSpace(text))
	return isTerminator(r) || isWideTerminator(r)
}

// trim lets the last text end its sentence.
func trim(pieces []piece) []piece {
	if n := len(pieces); n > 0 && pieces[n-1].text != "" {
		pieces[n-1].continues = false
	}
	return pieces
}

// silence is how long the pieces are silent by order.
func silence(pieces []piece) time.Duration {
	var d time.Duration
	for _, p := range pieces {
		d += p.silence
	}
	return d
}

// countSpoken counts the pieces that are spoken.
func countSpoken(pieces []piece) int {
	n := 0
	for _, p := range pieces {
		if p.text != "" {
			n++
		}
	}
	return n
}

// segment is the piece as an engine gets it, inside the engine's limits.
func (j job) segment(p piece, dir string) Segment {
	m := p.manner
	if m == (manner{}) {
		m = plainManner
	}
	return Segment{
		Text: p.text, Voice: j.voice, Continues: p.continues, Dir: dir,
		RateWPM: between(int(math.Round(float64(j.rateWPM)*m.rate)), minRate, maxRate),
		Pitch:   between(int(math.Round(float64(j.pitch)*m.pitch)), 0, maxPitch),
		Volume:  min(j.volume*m.volume, maxVolume),
	}
}

func between(n, low, high int) int { return min(max(n, low), high) }
