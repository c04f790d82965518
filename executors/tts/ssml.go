package tts

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

// Limits of a document.
const (
	maxSSMLDepth = 32
	maxBreak     = 10 * time.Second
	parPause     = 350 * time.Millisecond // after a paragraph
)

// passage is a stretch of text that is spoken in one manner, or a silence.
type passage struct {
	text    string
	silence time.Duration // where text is empty
	manner  manner
	exact   bool // say-as has already said how: no normalisation
	ends    bool // a sentence ends with it, whatever its last rune is
}

// manner is how a passage is spoken, as factors of what the task asks for.
type manner struct{ rate, pitch, volume float64 }

var plainManner = manner{rate: 1, pitch: 1, volume: 1}

// parseSSML reads the subset of SSML 1.1 (W3C recommendation of 2010) that does
// not depend on an engine: speak, p, s, break, prosody with rate, pitch and
// volume, and say-as with characters, spell-out, digits or date. Anything else
// is refused by name, so that nothing is silently spoken otherwise than asked.
// language is the xml:lang of speak, or "". Breaks are silences of exactly
// their length; they take the place of the pause that an engine would make.
func parseSSML(text string, english bool) (passages []passage, language string, err error) {
	p := &ssmlParser{dec: xml.NewDecoder(strings.NewReader(text)), english: english}
	for {
		token, err := p.dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, "", p.invalid("is not well-formed XML: %v", plainXMLError(err))
		}
		if err := p.token(token); err != nil {
			return nil, "", err
		}
	}
	if !p.rooted {
		return nil, "", p.invalid("has no <speak> element, which every SSML document starts with")
	}
	return p.finish(), p.language, nil
}

// ssmlParser turns tokens into passages.
type ssmlParser struct {
	dec      *xml.Decoder
	english  bool
	rooted   bool
	language string
	open     []openElement
	out      []passage
}

type openElement struct {
	name   string
	manner manner
	say    sayAs
}

func (p *ssmlParser) token(token xml.Token) error {
	switch t := token.(type) {
	case xml.StartElement:
		return p.start(t)
	case xml.EndElement:
		return p.end(t)
	case xml.CharData:
		return p.chars(string(t))
	case xml.Directive:
		return p.invalid("holds a <!%s> declaration, which is not allowed", short(firstWord(string(t)), 20))
	}
	return nil // comments and the <?xml?> line say nothing
}

func (p *ssmlParser) start(t xml.StartElement) error {
	name := t.Name.Local
	if !p.rooted && name != "speak" {
		return p.invalid("starts with <%s>, an SSML document starts with <speak>", short(name, 40))
	}
	if len(p.open) == 0 && p.rooted {
		return p.invalid("goes on after </speak>")
	}
	if len(p.open) >= maxSSMLDepth {
		return p.invalid("is nested more than %d elements deep", maxSSMLDepth)
	}
	top := openElement{name: name, manner: plainManner}
	if n := len(p.open); n > 0 {
		if inside := p.open[n-1].name; inside == "break" || inside == "say-as" {
			return p.invalid("<%s> holds <%s>, it can hold text only", inside, short(name, 40))
		}
		top.manner = p.open[n-1].manner
	}
	if err := p.element(&top, t); err != nil {
		return err
	}
	p.open = append(p.open, top)
	return nil
}

// element does what the start of an element asks for.
func (p *ssmlParser) element(top *openElement, t xml.StartElement) error {
	attrs := map[string]string{}
	for _, a := range t.Attr {
		attrs[a.Name.Local] = strings.TrimSpace(a.Value)
	}
	var err error
	switch top.name {
	case "speak":
		if p.rooted {
			return p.invalid("holds a <speak> inside <speak>")
		}
		p.rooted, p.language = true, attrs["lang"]
	case "p", "s":
		p.endSentence()
	case "break":
		var d time.Duration
		if d, err = parseBreak(attrs); err == nil && d > 0 {
			p.out = append(p.out, passage{silence: d})
		}
	case "prosody":
		top.manner, err = top.manner.with(attrs)
	case "say-as":
		top.say, err = parseSayAs(attrs)
	default:
		line, column := p.dec.InputPos()
		refusal := executors.Errorf(executors.CodeUnsupported,
			"text: as SSML, at line %d, column %d: element <%s> is not supported; there are speak, p, s, break, prosody and say-as", line, column, short(top.name, 40))
		refusal.Field = "text"
		return refusal
	}
	if err != nil {
		return p.invalid("<%s>: %v", top.name, err)
	}
	return nil
}

func (p *ssmlParser) end(t xml.EndElement) error {
	p.open = p.open[:len(p.open)-1] // the decoder has matched the names
	switch t.Name.Local {
	case "s":
		p.endSentence()
	case "p":
		p.endSentence()
		p.out = append(p.out, passage{silence: parPause})
	}
	return nil
}

func (p *ssmlParser) chars(text string) error {
	if len(p.open) == 0 {
		if strings.TrimSpace(strings.TrimPrefix(text, "\ufeff")) != "" {
			if !p.rooted {
				return p.invalid("has no <speak> element around its text")
			}
			return p.invalid("holds text outside of <speak>")
		}
		return nil
	}
	top := p.open[len(p.open)-1]
	if strings.TrimSpace(text) == "" {
		return nil
	}
	if top.name == "break" {
		return p.invalid("<break> holds text, it has to be empty: <break/>")
	}
	said, exact := top.say.say(text, p.english)
	p.out = append(p.out, passage{text: said, manner: top.manner, exact: exact})
	return nil
}

// endSentence makes the last text end its sentence.
func (p *ssmlParser) endSentence() {
	for i := len(p.out) - 1; i >= 0; i-- {
		if p.out[i].text != "" {
			p.out[i].ends = true
			return
		}
	}
}

// finish drops the pause after the last paragraph: nothing follows it.
func (p *ssmlParser) finish() []passage {
	p.endSentence()
	if n := len(p.out); n > 0 && p.out[n-1].text == "" && p.out[n-1].silence == parPause {
		p.out = p.out[:n-1]
	}
	return p.out
}

// invalid is an error about the text, with the line where it is.
func (p *ssmlParser) invalid(format string, args ...any) error {
	line, column := p.dec.InputPos()
	return executors.Invalid("text", "as SSML, at line %d, column %d: %s", line, column, fmt.Sprintf(format, args...))
}

func plainXMLError(err error) string {
	var syntax *xml.SyntaxError
	if errors.As(err, &syntax) {
		return syntax.Msg
	}
	return err.Error()
}

func firstWord(s string) string {
	if words := strings.Fields(s); len(words) > 0 {
		return words[0]
	}
	return ""
}
