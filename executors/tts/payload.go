package tts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/autobot-fleet/autobot/executors"
)

// Operations of type tts; the first is the default.
const (
	opSynthesize  = "synthesize"
	opListVoices  = "list_voices"
	opCreateVoice = "create_voice"
	opDeleteVoice = "delete_voice"
)

// sampleRates are the rates a task may ask for, in Hz.
var sampleRates = []int{8000, 16000, 22050, 24000, 44100, 48000}

// request is the payload of type tts. Pointers tell "not given" from zero.
type request struct {
	Text          *string         `json:"text"`
	Voice         string          `json:"voice"`
	VoiceID       string          `json:"voice_id"` // alias of voice
	Language      string          `json:"language"`
	Format        string          `json:"format"`
	SampleRate    *int            `json:"sample_rate"`
	RateWPM       *int            `json:"rate_wpm"`
	Pitch         *int            `json:"pitch"`
	Volume        *float64        `json:"volume"`
	SSML          bool            `json:"ssml"`
	Normalize     json.RawMessage `json:"normalize"` // true, false, or an object of switches
	Segments      string          `json:"segments"`
	PeakNormalize *float64        `json:"peak_normalize"`
	InputData     *struct {
		Text *string `json:"text"`
	} `json:"input_data"` // alias of text, as older producers nest it
}

// Limits of a task's and an engine's parameters.
const (
	minRate, maxRate = 80, 450
	maxPitch         = 99
	voicePitch       = 50 // the voice's own
	maxVolume        = 2
)

// job is a checked request to speak.
type job struct {
	text          string    // trimmed
	passages      []passage // of an SSML document, nil for plain text
	voice         Voice
	format        string
	sampleRate    int
	rateWPM       int
	pitch         int
	volume        float64
	normalize     normalization
	peakNormalize float64 // 0: off
}

// check turns the payload into a job, or says what is wrong with it. It starts
// nothing. raw is the payload as it came.
func (r request) check(raw []byte, voices catalogue, maxRunes int) (job, error) {
	j := job{format: formatWAV, rateWPM: 175, pitch: voicePitch, volume: 1}
	var err error
	if j.text, err = r.checkText(raw, maxRunes); err != nil {
		return job{}, err
	}
	if r.Format != "" {
		if err := checkFormatName(r.Format); err != nil {
			return job{}, err
		}
		j.format = r.Format
	}
	if r.Segments != "" && r.Segments != "auto" {
		return job{}, executors.Invalid("segments", "must be \"auto\", got %q", short(r.Segments, 80))
	}
	if r.SampleRate != nil {
		if j.sampleRate = *r.SampleRate; !slices.Contains(sampleRates, j.sampleRate) {
			return job{}, executors.Invalid("sample_rate", "must be one of %s, got %d", join(sampleRates), j.sampleRate)
		}
	}
	if err := errorsFirst(
		inRange("rate_wpm", r.RateWPM, &j.rateWPM, minRate, maxRate),
		inRange("pitch", r.Pitch, &j.pitch, 0, maxPitch),
		inRange("volume", r.Volume, &j.volume, 0, maxVolume),
		inRange("peak_normalize", r.PeakNormalize, &j.peakNormalize, 0, 1),
	); err != nil {
		return job{}, err
	}
	if j.normalize, err = parseNormalize(r.Normalize); err != nil {
		return job{}, err
	}
	if j.voice, err = r.pickVoice(voices); err != nil {
		return job{}, err
	}
	if r.Pitch != nil && j.pitch != voicePitch && j.voice.OnePitch {
		return job{}, onePitch(j.voice, "pitch")
	}
	if j.sampleRate == 0 {
		j.sampleRate = j.voice.SampleRate
	}
	if r.SSML {
		return j, j.readSSML()
	}
	return j, nil
}

// readSSML takes the text as an SSML document.
func (j *job) readSSML() error {
	passages, language, err := parseSSML(j.text, j.voice.english())
	if err != nil {
		return err
	}
	if language != "" && !j.voice.covers(language) {
		return executors.Invalid("text", "xml:lang is %q, voice %s speaks %s; give the language or a voice that speaks it", short(language, 40), j.voice.ID, j.voice.Language)
	}
	for _, p := range passages {
		if p.text != "" && p.manner.pitch != 1 && j.voice.OnePitch {
			return onePitch(j.voice, "text")
		}
	}
	j.passages = append([]passage{}, passages...) // never nil: it is an SSML document
	return nil
}

// onePitch refuses what would not be heard.
func onePitch(v Voice, field string) error {
	err := executors.Errorf(executors.CodeUnsupported, "%s: voice %s speaks in its own pitch only", field, v.ID)
	err.Field = field
	err.Hint = "leave pitch out, or use a voice of espeak-ng"
	return err
}

// checkText returns the trimmed text.
func (r request) checkText(raw []byte, maxRunes int) (string, error) {
	text, field := r.Text, "text"
	if text == nil && r.InputData != nil {
		text, field = r.InputData.Text, "input_data.text"
	}
	if text == nil {
		return "", executors.Invalid("text", "is required")
	}
	if damaged(raw, *text) {
		return "", executors.Invalid(field, "is not valid UTF-8")
	}
	for i, c := range *text {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' {
			return "", executors.Invalid(field, "holds the control character U+%04X at byte %d; only tab, line feed and carriage return are allowed", c, i)
		}
	}
	trimmed := strings.TrimSpace(*text)
	if trimmed == "" {
		return "", executors.Invalid(field, "is empty, there is nothing to speak")
	}
	if n := utf8.RuneCountInString(trimmed); n > maxRunes {
		err := executors.Errorf(executors.CodeTooLarge, "%s: has %d runes, the limit is %d (executors.tts.max_runes)", field, n, maxRunes)
		err.Field = field
		err.Hint = "send the text in several tasks"
		return "", err
	}
	return trimmed, nil
}

// damaged reports whether text was not valid Unicode where it came from. The
// JSON decoder silently turns bad bytes and half surrogate pairs into U+FFFD,
// so one that nobody wrote gives them away.
func damaged(raw []byte, text string) bool {
	if !utf8.Valid(raw) {
		return true
	}
	return strings.ContainsRune(text, utf8.RuneError) &&
		!bytes.ContainsRune(raw, utf8.RuneError) && !bytes.Contains(bytes.ToLower(raw), []byte(`\ufffd`))
}

// pickVoice finds the voice by name, by language, or the default. A voice and a
// language that do not fit each other are an error, not a choice.
func (r request) pickVoice(voices catalogue) (Voice, error) {
	id, field := r.Voice, "voice"
	if id == "" {
		id, field = r.VoiceID, "voice_id"
	} else if r.VoiceID != "" && r.VoiceID != id {
		return Voice{}, executors.Invalid("voice_id", "is another name of voice and differs from it")
	}
	if id == "" && r.Language != "" {
		return voices.speak(r.Language)
	}
	if id == "" {
		id, field = voices.def, "voice"
	}
	if !voiceGrammar.MatchString(id) {
		return Voice{}, executors.Invalid(field, "must match [a-z0-9_-]{1,64}, got %q", short(id, 80))
	}
	v, err := voices.find(id)
	if err != nil {
		return Voice{}, err
	}
	if r.Language != "" {
		if _, err := voices.speak(r.Language); err != nil {
			return Voice{}, err
		}
		if !v.covers(r.Language) {
			return Voice{}, executors.Invalid("language", "voice %s speaks %s, not %q; leave one of the two out", v.ID, v.Language, r.Language)
		}
	}
	return v, nil
}

// parseNormalize reads the switches: absent or true is all of them, false none,
// an object changes single ones.
func parseNormalize(raw json.RawMessage) (normalization, error) {
	all := normalization{Numbers: true, Abbreviations: true, URLs: true, Markdown: true}
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", "true":
		return all, nil
	case "false":
		return normalization{}, nil
	}
	var switches map[string]json.RawMessage
	if err := json.Unmarshal(raw, &switches); err != nil {
		return all, executors.Invalid("normalize", "must be true, false or an object, got %s", short(string(raw), 80))
	}
	known := map[string]*bool{"numbers": &all.Numbers, "abbreviations": &all.Abbreviations, "urls": &all.URLs, "markdown": &all.Markdown}
	for name, value := range switches {
		target, ok := known[name]
		switch {
		case !ok && strings.HasPrefix(name, "x_"):
			continue
		case !ok:
			return all, executors.Invalid("normalize."+short(name, 80), "is not known; there are numbers, abbreviations, urls and markdown")
		}
		if err := json.Unmarshal(value, target); err != nil {
			return all, executors.Invalid("normalize."+name, "must be true or false, got %s", short(string(value), 80))
		}
	}
	return all, nil
}

// inRange puts a given value into target if it is between low and high.
func inRange[N int | float64](field string, given, target *N, low, high N) error {
	if given == nil {
		return nil
	}
	if *given < low || *given > high {
		return executors.Invalid(field, "must be between %v and %v, got %v", low, high, *given)
	}
	*target = *given
	return nil
}

func errorsFirst(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func join(numbers []int) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(numbers)), ", "), "[]")
}
