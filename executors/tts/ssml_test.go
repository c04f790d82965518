package tts

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autobot-fleet/autobot/executors"
)

// ms is the length of what a text became.
func ms(t *testing.T, e *Executor, text string, ssml bool) int64 {
	t.Helper()
	return mustSpeak(t, e, map[string]any{"text": text, "ssml": ssml}).output.DurationMS
}

func within(t *testing.T, what string, got, want, tolerance int64) {
	t.Helper()
	if got < want-tolerance || got > want+tolerance {
		t.Errorf("%s: %d ms, want %d ± %d", what, got, want, tolerance)
	}
}

func TestBreaksAreExactSilences(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, nil)
	cat := ms(t, e, "cat", false)
	within(t, "a leading break", ms(t, e, `<speak><break time="1000ms"/>cat</speak>`, true), cat+1000, 1)
	within(t, "two breaks", ms(t, e, `<speak><break time="1s"/><break strength="medium"/>cat</speak>`, true), cat+1500, 1)

	s := mustSpeak(t, e, map[string]any{"ssml": true, "text": `<speak>One.<break time="700ms"/>Two.</speak>`})
	if n := len(s.output.Segments); n != 2 {
		t.Fatalf("%d segments, want 2", n)
	}
	first, second := s.output.Segments[0], s.output.Segments[1]
	within(t, "the silence between two sentences", second.StartMS-first.StartMS-first.DurationMS, 700, 1)
	file := parseWAV(t, s.file(t))
	from := int(first.StartMS+first.DurationMS+2) * file.rate / 1000
	for i, v := range file.samples[from : from+file.rate*695/1000] {
		if v != 0 {
			t.Fatalf("sample %d of the break is %d", i, v)
		}
	}
}

func TestProsodyHoldsForItsOwnText(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, nil)
	const second = "This is the second sentence of the two."
	plain := ms(t, e, second, false)
	s := mustSpeak(t, e, map[string]any{"ssml": true, "text": `<speak><prosody rate="x-fast">Here is the first one.</prosody> <prosody rate="x-slow">` + second + `</prosody></speak>`})
	if n := len(s.output.Segments); n != 2 {
		t.Fatalf("%d segments, want 2", n)
	}
	if slow := s.output.Segments[1].DurationMS; slow < plain*3/2 {
		t.Errorf("x-slow takes %d ms, plain %d ms", slow, plain)
	}
	quiet := parseWAV(t, mustSpeak(t, e, map[string]any{"ssml": true, "text": `<speak><prosody volume="-12dB">` + second + `</prosody></speak>`}).file(t))
	loud := parseWAV(t, mustSpeak(t, e, map[string]any{"text": second}).file(t))
	if q, l := peakOf(quiet.samples), peakOf(loud.samples); q*3 > l {
		t.Errorf("peak at -12 dB is %d, without %d", q, l)
	}
}

func peakOf(samples []int16) int {
	peak := 0
	for _, s := range samples {
		peak = max(peak, int(s), -int(s))
	}
	return peak
}

func TestSayAsIsSpokenAsAsked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ ssml, want string }{
		{`<speak><say-as interpret-as="characters">W3C-x</say-as></speak>`, "W 3 C dash X"},
		{`<speak>Call <say-as interpret-as="digits">112</say-as> now.</speak>`, "Call|1 1 2|now."},
		{`<speak><say-as interpret-as="date" format="dmy">3/4/2026</say-as></speak>`, "April 3rd, 2026"},
		{`<speak><say-as interpret-as="date">2024-02-29</say-as></speak>`, "February 29th, 2024"},
		{`<speak><say-as interpret-as="date" format="my">12/1999</say-as></speak>`, "December 1999"},
		{`<speak><p><s>Mr. Smith owes $5.</s><s>No</s></p><p>Two</p></speak>`, "Mister Smith owes 5 dollars.|No|~350ms|Two"},
		{`<speak>It is <say-as interpret-as="digits">12</say-as>. Really.</speak>`, "It is|1 2.|Really."},
		{`<speak>A &amp; B &lt; C</speak>`, "A & B < C"},
	} {
		got, err := planned(tt.ssml)
		if err != nil {
			t.Errorf("%s: %v", tt.ssml, err)
		} else if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", tt.ssml, d)
		}
	}
}

// planned shows the pieces of a document, separated by bars.
func planned(text string) (string, error) {
	all, _ := parseNormalize(nil)
	j := job{text: text, normalize: all, voice: Voice{ID: "en-us", Language: "en-us"}}
	if err := j.readSSML(); err != nil {
		return "", err
	}
	var out []string
	for _, p := range j.plan() {
		if p.text == "" {
			out = append(out, "~"+p.silence.Round(time.Millisecond).String())
		} else {
			out = append(out, p.text)
		}
	}
	return strings.Join(out, "|"), nil
}

func TestSSMLFaultsNameThePlace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text, want string
		code       executors.Code
	}{
		{`Hello`, "no <speak> element", executors.CodeInvalidInput},
		{`<p>Hello</p>`, "starts with <p>", executors.CodeInvalidInput},
		{"<speak>\n<p>Hello</speak>", "line 2", executors.CodeInvalidInput},
		{`<speak>1 < 2</speak>`, "not well-formed", executors.CodeInvalidInput},
		{`<speak>a</speak><speak>b</speak>`, "after </speak>", executors.CodeInvalidInput},
		{`<speak>a</speak> b`, "outside of <speak>", executors.CodeInvalidInput},
		{`<speak><break time="1h"/></speak>`, `time "1h"`, executors.CodeInvalidInput},
		{`<speak><break time="11s"/>a</speak>`, "longer than 10s", executors.CodeInvalidInput},
		{`<speak><break time="-1s"/>a</speak>`, "not a length", executors.CodeInvalidInput},
		{`<speak><break time="1e1s"/>a</speak>`, "not a length", executors.CodeInvalidInput},
		{`<speak><break time="NaNs"/>a</speak>`, "not a length", executors.CodeInvalidInput},
		{`<speak><prosody rate="quick">a</prosody></speak>`, `rate "quick"`, executors.CodeInvalidInput},
		{`<speak><prosody range="high">a</prosody></speak>`, "attribute range", executors.CodeInvalidInput},
		{`<speak><say-as interpret-as="telephone">1</say-as></speak>`, `"telephone"`, executors.CodeInvalidInput},
		{`<speak><say-as>1</say-as></speak>`, "interpret-as is missing", executors.CodeInvalidInput},
		{`<speak><audio src="x"/></speak>`, "line 1, column 24: element <audio> is not supported", executors.CodeUnsupported},
		{`<speak xml:lang="de">Hallo</speak>`, "xml:lang", executors.CodeInvalidInput},
		{`<!DOCTYPE speak [<!ENTITY a "b">]><speak>&a;</speak>`, "declaration", executors.CodeInvalidInput},
		{`<speak>` + strings.Repeat("<p>", 40) + strings.Repeat("</p>", 40) + `</speak>`, "deep", executors.CodeInvalidInput},
	} {
		_, err := planned(tt.text)
		e := executors.AsError(err)
		if e == nil || e.Code != tt.code || !strings.Contains(e.Message, tt.want) || e.Field != "text" {
			t.Errorf("%s: %v, want %s with %q", tt.text, err, tt.code, tt.want)
		}
	}
}

func TestSSMLWithNothingToSayIsRefused(t *testing.T) {
	t.Parallel()
	s := run(t.Context(), t, newExecutor(t, nil), payload(t, map[string]any{"ssml": true, "text": `<speak><break time="1s"/></speak>`}), nil)
	if s.err == nil || s.err.Code != executors.CodeInvalidInput {
		t.Errorf("got %v", s.err)
	}
}

func FuzzSSML(f *testing.F) {
	for _, s := range []string{
		`<speak>a</speak>`, `<speak><p><s>a.</s></p><break time="1.5s"/></speak>`, `<speak><prosody rate="+20%" pitch="-2st" volume="+6dB">b</prosody></speak>`,
		`<speak><say-as interpret-as="date" format="mdy">1/2/2003</say-as></speak>`, `<?xml version="1.0"?><!-- c --><speak xml:lang="en">d</speak>`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, _ := parseNormalize(nil)
		j := job{text: text, normalize: all, rateWPM: 175, pitch: 50, volume: 1, voice: Voice{ID: "en-us", Language: "en-us"}}
		if err := j.readSSML(); err != nil {
			if executors.AsError(err).Code == executors.CodeEngineError {
				t.Errorf("%q: an error without a code: %v", text, err)
			}
			return
		}
		for _, p := range j.plan() {
			s := j.segment(p, "")
			if p.silence < 0 || p.silence > maxBreak || s.RateWPM < minRate || s.RateWPM > maxRate || s.Pitch < 0 || s.Pitch > maxPitch ||
				!(s.Volume >= 0 && s.Volume <= maxVolume) || (p.text == "") == (p.silence == 0) && p.text == "" && p.silence != 0 {
				t.Errorf("%q: %+v becomes %+v", text, p, s)
			}
		}
	})
}
