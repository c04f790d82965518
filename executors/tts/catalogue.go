package tts

import (
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/language"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/internal/nearest"
)

// catalogue finds the voice for a task among those that are installed.
type catalogue struct {
	voices  []Voice
	def     string  // voice of a task that asks for none
	missing []error // why engines have no voices here
}

// find returns the voice called id. A language that a voice serves may be given
// instead. It never falls back to another voice: NOT_FOUND names the nearest,
// if any is near.
func (c catalogue) find(id string) (Voice, error) {
	for _, v := range c.voices {
		if v.ID == id {
			return v, nil
		}
	}
	if v, ok := c.serves(id); ok {
		return v, nil
	}
	if piperQuality.MatchString(id) && len(c.missing) > 0 {
		return Voice{}, c.missing[0]
	}
	if engine := neuralVoice(id); engine != "" {
		err := executors.Errorf(executors.CodeUnsupported, "voice %q is a neural voice of %s, which this executor does not drive", id, engine)
		err.Field = "voice"
		err.Hint = "use a voice that op list_voices shows, for example " + c.def
		return Voice{}, err
	}
	err := notFound("voice", id, nearest.Names(id, c.ids(), 3))
	if piperQuality.MatchString(id) {
		err.Hint += "; neural voices: autobot-agent engines list, or models add FILE --task tts"
	}
	return Voice{}, err
}

var languageGrammar = regexp.MustCompile(`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$`)

// speak returns the voice for a BCP-47 language tag: the default voice when it
// fits, else the voice that names the language, else the best of those that
// serve it; a region that nobody speaks is dropped ("de-AT" is spoken by "de"),
// and one that nobody asked for does not matter.
// A tag that is no longer used finds its successor ("iw" is "he").
func (c catalogue) speak(tag string) (Voice, error) {
	if len(tag) > 64 || !languageGrammar.MatchString(tag) {
		return Voice{}, executors.Invalid("language", "%q is not a BCP-47 language tag such as en-US", short(tag, 80))
	}
	for _, t := range ancestry(tag) {
		if v, ok := c.serves(t); ok {
			return v, nil
		}
	}
	for _, v := range c.voices {
		if v.covers(tag) { // "chr" is spoken by "chr-us-qaaa-x-west"
			return v, nil
		}
	}
	return Voice{}, notFound("language", tag, nearest.Names(tag, c.languages(), 3))
}

// ancestry returns tag and its ever shorter beginnings, lower case, then the
// same for its canonical form.
func ancestry(tag string) []string {
	var out []string
	add := func(t string) {
		for t = strings.ToLower(t); t != ""; t = t[:max(0, strings.LastIndexByte(t, '-'))] {
			if !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	add(tag)
	if parsed, err := language.All.Parse(tag); err == nil {
		add(parsed.String())
	}
	return out
}

// serves returns the best voice for exactly this language, lower case.
func (c catalogue) serves(tag string) (Voice, bool) {
	var best Voice
	rank, found := 0, false
	for _, v := range c.voices {
		p, ok := v.priorities[tag]
		if v.Language == tag {
			p, ok = v.Priority, true
		}
		if !ok {
			continue
		}
		if v.ID == c.def {
			return v, true
		}
		if !found || p < rank {
			best, rank, found = v, p, true
		}
	}
	return best, found
}

// covers reports whether v speaks the language of tag, whatever its region.
func (v Voice) covers(tag string) bool {
	for _, t := range ancestry(tag) {
		base, _, _ := strings.Cut(t, "-")
		for _, l := range append([]string{v.Language}, v.Languages...) {
			if have, _, _ := strings.Cut(l, "-"); have == base {
				return true
			}
		}
	}
	return false
}

// english reports whether the voice's own language is English.
func (v Voice) english() bool {
	return v.Language == "en" || strings.HasPrefix(v.Language, "en-")
}

func (c catalogue) ids() []string {
	ids := make([]string, 0, len(c.voices))
	for _, v := range c.voices {
		ids = append(ids, v.ID)
	}
	return ids
}

func (c catalogue) languages() []string {
	var tags []string
	for _, v := range c.voices {
		tags = append(append(tags, v.Language), v.Languages...)
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}

// piperQuality is how the names of Piper's voices end.
var piperQuality = regexp.MustCompile(`-(x_low|low|medium|high)$`)

// neuralVoice returns the engine, which we do not drive, of a neural voice that
// people know by name, or "".
func neuralVoice(id string) string {
	if slices.Contains([]string{"alba", "marius", "javert", "jean", "fantine", "cosette", "eponine", "azelma"}, id) {
		return "pocket-tts"
	}
	return ""
}

func notFound(kind, name string, near []string) *executors.Error {
	err := executors.Errorf(executors.CodeNotFound, "%s %q is not installed", kind, name)
	if len(near) > 0 {
		err.Message += "; nearest: " + strings.Join(near, ", ")
	}
	err.Field = kind
	err.Hint = "op list_voices shows all voices and their languages"
	return err
}
