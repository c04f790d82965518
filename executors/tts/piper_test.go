package tts

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
)

// joe is the voice that the tests speak with.
const joe = "en-us-joe-medium"

var (
	sharedJoe sync.Mutex
	onlyJoe   *Piper
)

// newJoe returns the engine with the installed voice. There is one for all
// tests, because a process has one runtime.
func newJoe(t testing.TB) *Piper {
	t.Helper()
	layout := engines.Locate()
	for _, need := range []func() error{
		func() error { _, _, err := layout.OpenVINO(); return err },
		func() error { _, _, err := layout.Model(joe); return err },
	} {
		if err := need(); err != nil {
			t.Fatalf("%v (scripts/setup installs what the tests need)", err)
		}
	}
	sharedJoe.Lock()
	defer sharedJoe.Unlock()
	if onlyJoe == nil {
		onlyJoe = NewPiper(layout, NewEspeak(DefaultSettings()), filepath.Join(engines.CacheDir(), "compiled"))
	}
	return onlyJoe
}

func closeJoe() {
	if onlyJoe != nil {
		_ = onlyJoe.Close() // its goroutine would be found
	}
}

func newNeural(t testing.TB) *Executor {
	t.Helper()
	s := DefaultSettings()
	return NewWithEngine(s, NewEspeak(s), newJoe(t))
}

// reference is what piper-tts 1.8.0 makes of a text with this voice.
type reference struct {
	Text     string    `json:"text"`
	Phonemes []string  `json:"phonemes"`
	IDs      [][]int64 `json:"ids"`
	// Samples of the model's output without noise (scales 0, 1, 0), as
	// onnxruntime computes them: how many, and every 997th.
	Samples []int       `json:"samples"`
	Every   [][]float64 `json:"every_997th"`
}

func references(t *testing.T) []reference {
	t.Helper()
	raw, err := os.ReadFile("testdata/piper.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []reference
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestPhonemesAndIDsAreThoseOfPiper(t *testing.T) {
	t.Parallel()
	p := newJoe(t)
	card, dir, err := p.layout.Model(joe)
	if err != nil {
		t.Fatal(err)
	}
	config, err := readPiperConfig(card, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range references(t) {
		got, err := phonemeSentences(t.Context(), p.espeak, config.Espeak.Voice, ref.Text, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(ref.Phonemes, got); d != "" {
			t.Errorf("%q: %s", ref.Text, d)
			continue
		}
		for i, sentence := range got {
			if d := cmp.Diff(ref.IDs[i], config.ids(sentence)); d != "" {
				t.Errorf("%q: %s", sentence, d)
			}
		}
	}
}

func TestWithoutNoiseTheVoiceIsThatOfTheReference(t *testing.T) {
	t.Parallel()
	p := newJoe(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	v, err := p.voice(t.Context(), joe)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range references(t) {
		for i, ids := range ref.IDs {
			samples, err := v.infer(t.Context(), ids, [3]float32{0, 1, 0})
			if err != nil {
				t.Fatal(err)
			}
			if len(samples) != ref.Samples[i] {
				t.Errorf("%q: %d samples, want %d", ref.Phonemes[i], len(samples), ref.Samples[i])
				continue
			}
			for j, want := range ref.Every[i] {
				if diff := math.Abs(float64(samples[j*997]) - want); diff > 1e-3 {
					t.Errorf("%q: sample %d is %g, want %g", ref.Phonemes[i], j*997, samples[j*997], want)
					break
				}
			}
		}
	}
}

func TestANeuralVoiceIsChosenByItsName(t *testing.T) {
	t.Parallel()
	e := newNeural(t)
	const text = "The quick brown fox jumps over the lazy dog. Glue the sheet to the dark blue background."
	s := mustSpeak(t, e, map[string]any{"text": text, "voice": joe})
	if s.output.Engine != piperName || s.output.Voice != joe || len(s.output.Segments) != 2 || s.output.SampleRate != 22050 {
		t.Errorf("%+v", s.output)
	}
	file := parseWAV(t, s.file(t))
	if ms := int64(len(file.samples)) * 1000 / int64(file.rate); ms < 4500 || ms > 8000 {
		t.Errorf("%d ms", ms)
	}
	if p := peakOf(file.samples); p < 32000 {
		t.Errorf("peak %d: each sentence is scaled to full scale", p)
	}
	fast := mustSpeak(t, e, map[string]any{"text": text, "voice": joe, "rate_wpm": 350})
	if fast.output.DurationMS > s.output.DurationMS*2/3 {
		t.Errorf("twice as fast takes %d ms of %d", fast.output.DurationMS, s.output.DurationMS)
	}
	soft := mustSpeak(t, e, map[string]any{"text": text, "voice": joe, "volume": 0.25})
	if p := peakOf(parseWAV(t, soft.file(t)).samples); p < 8000 || p > 8400 {
		t.Errorf("peak at volume 0.25 is %d", p)
	}
	if s := mustSpeak(t, e, map[string]any{"text": text}); s.output.Engine != espeakName {
		t.Errorf("the default voice is spoken by %s", s.output.Engine)
	}
}

func TestNeuralVoicesObeySSML(t *testing.T) {
	t.Parallel()
	e := newNeural(t)
	// Noise makes each run differ a little in length, so the silence is looked for.
	s := mustSpeak(t, e, map[string]any{"voice": joe, "ssml": true, "text": `<speak>One.<break time="900ms"/>Two.</speak>`})
	first, second := s.output.Segments[0], s.output.Segments[1]
	within(t, "the break", second.StartMS-first.StartMS-first.DurationMS, 900, 1)
	for field, fields := range map[string]map[string]any{
		"pitch": {"voice": joe, "text": "Hello.", "pitch": 80},
		"text":  {"voice": joe, "ssml": true, "text": `<speak><prosody pitch="high">Hello.</prosody></speak>`},
	} {
		s := run(t.Context(), t, e, payload(t, fields), nil)
		if s.err == nil || s.err.Code != executors.CodeUnsupported || s.err.Field != field {
			t.Errorf("%v: %v", fields, s.err)
		}
	}
}

func TestLongTextIsSpokenSentenceBySentence(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	s.MaxRunes, s.MaxBytes = 10_000, 64<<20
	e := NewWithEngine(s, NewEspeak(s), newJoe(t))
	spoken := mustSpeak(t, e, map[string]any{"voice": joe, "text": strings.Repeat("Glue the sheet to the dark blue background. ", 40)})
	if len(spoken.output.Segments) != 40 {
		t.Fatalf("%d segments", len(spoken.output.Segments))
	}
	lengths := []int64{}
	for _, seg := range spoken.output.Segments {
		lengths = append(lengths, seg.DurationMS)
	}
	if shortest, longest := slices.Min(lengths), slices.Max(lengths); shortest < 1500 || longest > 5000 {
		t.Errorf("the same sentence takes %d to %d ms", shortest, longest)
	}
}

func TestTheFirstLongSynthesisIsWhole(t *testing.T) {
	t.Parallel()
	p := newJoe(t)
	p.mu.Lock()
	for _, v := range p.loaded { // cold
		v.close()
	}
	p.loaded = nil
	p.mu.Unlock()
	text := strings.TrimSpace(strings.Repeat("one two three four five six seven eight nine ten, ", 6)) + "."
	s := mustSpeak(t, newNeural(t), map[string]any{"voice": joe, "text": text})
	if s.output.DurationMS < 10_000 {
		t.Errorf("60 words take %d ms", s.output.DurationMS)
	}
}

func TestWithoutTheRuntimeANeuralVoiceSaysHowToGetIt(t *testing.T) {
	t.Parallel()
	installed := engines.Locate()
	layout := engines.Layout{EnginesDir: t.TempDir(), ModelsDir: installed.ModelsDir}
	s := DefaultSettings()
	e := NewWithEngine(s, NewEspeak(s), NewPiper(layout, NewEspeak(s), ""))
	spoken := run(t.Context(), t, e, payload(t, map[string]any{"text": "Hello.", "voice": joe}), nil)
	if spoken.err == nil || spoken.err.Code != executors.CodeEngineUnavailable || !strings.Contains(spoken.err.Error(), engines.InstallOpenVINO) {
		t.Errorf("%v", spoken.err)
	}
	d, err := e.Describe(t.Context())
	if err != nil || !d.Ready || len(d.Reasons) != 1 || !strings.Contains(d.Reasons[0], engines.InstallOpenVINO) {
		t.Errorf("%+v, %v", d, err)
	}
	mustSpeak(t, e, map[string]any{"text": "Hello."}) // espeak-ng needs none of it
}

func FuzzPiperConfig(f *testing.F) {
	f.Add([]byte(`{"audio":{"sample_rate":22050},"espeak":{"voice":"en-us"},"inference":{"noise_scale":0.6,"length_scale":1,"noise_w":0.8},"phoneme_id_map":{"_":[0],"^":[1],"$":[2],"a":[3]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := parsePiperConfig(raw)
		if err != nil {
			return
		}
		if ids := c.ids("aəb"); len(ids) < 3 {
			t.Errorf("ids %v", ids)
		}
	})
}
