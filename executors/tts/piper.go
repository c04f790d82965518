package tts

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
)

const (
	piperName = "piper"
	// loadedVoices is how many models are kept in memory, some 150 MB each.
	loadedVoices = 2
	// maxPhonemeIDs bounds one inference. A sentence of 200 runes has about 600.
	maxPhonemeIDs = 4000
)

// Piper speaks with neural voices in the format of the Piper project: a VITS
// model in ONNX and a configuration beside it. espeak-ng turns the text into
// phonemes, as a child process; the model runs on the OpenVINO runtime, on the
// processor. A voice is an installed model with the task tts.
type Piper struct {
	layout engines.Layout
	espeak *Espeak
	cache  string

	mu      sync.Mutex // one inference at a time uses all processors
	runtime *ov.Runtime
	loaded  []*piperVoice // least recently used first
}

// piperVoice is a loaded voice.
type piperVoice struct {
	id       string
	sum      string // of the model, which may be replaced under its name
	config   piperConfig
	compiled *ov.Compiled
	request  *ov.Request
}

// NewPiper returns the engine with the voices of layout. cacheDir keeps
// compiled models, so that the next start is fast; "" keeps none. It starts
// nothing.
func NewPiper(layout engines.Layout, espeak *Espeak, cacheDir string) *Piper {
	return &Piper{layout: layout, espeak: espeak, cache: cacheDir}
}

// Name returns "piper".
func (p *Piper) Name() string { return piperName }

// Concurrency is 1: an inference uses all processors.
func (p *Piper) Concurrency() int { return 1 }

// Probe looks for the runtime and returns its version.
func (p *Piper) Probe(context.Context) (string, error) {
	_, version, err := p.layout.OpenVINO()
	if err != nil {
		return "", unavailable("%v", err)
	}
	return version, nil
}

// Voices lists the installed voices. Without the runtime there are none, and
// with at least one voice that is an error.
func (p *Piper) Voices(ctx context.Context) ([]Voice, error) {
	names, err := p.layout.Models()
	if err != nil {
		return nil, fmt.Errorf("list the voices: %w", err)
	}
	var out []Voice
	var broken []error
	for _, name := range names {
		card, dir, err := p.layout.Model(name)
		if err == nil && card.Task != engines.TaskTTS {
			continue
		}
		var config piperConfig
		if err == nil {
			config, err = readPiperConfig(card, dir)
		}
		if err == nil && !voiceGrammar.MatchString(name) {
			err = fmt.Errorf("voice %s: the name of a voice has only a-z, 0-9, dash and underscore", name)
		}
		if err != nil {
			if errors.Is(err, errNoVoice) {
				broken = append(broken, unavailable("%v", err))
			}
			continue // a broken model of another task is not our business
		}
		language := strings.ToLower(strings.ReplaceAll(config.Language.Code, "_", "-"))
		if language == "" {
			language = strings.ToLower(config.Espeak.Voice)
		}
		out = append(out, Voice{
			ID: name, Name: name, Language: language, SampleRate: config.Audio.SampleRate, engineName: name,
			Priority: lastChoice, OnePitch: true,
		})
	}
	if len(out) > 0 {
		if _, err := p.Probe(ctx); err != nil {
			return nil, err
		}
	}
	return out, errors.Join(broken...)
}

// lastChoice is the priority of neural voices: a task gets one when it asks for
// it by name, or when no other voice speaks its language.
const lastChoice = 1000

var errNoVoice = errors.New("is no usable voice")

func readPiperConfig(card engines.Card, dir string) (piperConfig, error) {
	raw, err := os.ReadFile(filepath.Join(dir, card.Voice))
	if err != nil {
		return piperConfig{}, fmt.Errorf("voice %s %w: %w", card.Name, errNoVoice, err)
	}
	config, err := parsePiperConfig(raw)
	if err != nil {
		return piperConfig{}, fmt.Errorf("voice %s %w: %s %w", card.Name, errNoVoice, card.Voice, err)
	}
	return config, nil
}

// Synthesize speaks s, one inference for each sentence. As Piper does it, each
// sentence is scaled to full scale first; Segment.Volume below 1 lowers that.
func (p *Piper) Synthesize(ctx context.Context, s Segment, emit func([]int16) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, err := p.voice(ctx, s.Voice.engineName)
	if err != nil {
		return err
	}
	sentences, err := phonemeSentences(ctx, p.espeak, v.config.Espeak.Voice, s.Text, s.Dir)
	if err != nil {
		return err
	}
	if len(sentences) == 0 {
		// Nothing in it is spoken: a moment of silence, as from espeak-ng.
		return emit(make([]int16, v.config.Audio.SampleRate/100))
	}
	for _, sentence := range sentences {
		samples, err := v.infer(ctx, v.config.ids(sentence), v.scales(s.RateWPM))
		if err != nil {
			return err
		}
		if err := emit(toPCM(samples, min(s.Volume, 1))); err != nil {
			return err
		}
	}
	return nil
}

// scales are the inputs for noise, length and noise of lengths. 175 words a
// minute is a voice's own rate.
func (v *piperVoice) scales(wpm int) [3]float32 {
	i := v.config.Inference
	return [3]float32{float32(i.NoiseScale), float32(i.LengthScale * 175 / float64(wpm)), float32(i.NoiseW)}
}

// infer runs the model: phoneme ids in, samples of -1..1 out.
func (v *piperVoice) infer(ctx context.Context, ids []int64, scales [3]float32) ([]float32, error) {
	if len(ids) > maxPhonemeIDs {
		err := executors.Errorf(executors.CodeTooLarge, "a sentence has %d phonemes, voice %s takes %d at once", len(ids)/2, v.id, maxPhonemeIDs/2)
		err.Hint = "split the sentence"
		return nil, err
	}
	inputs, err := tensors(ids, scales)
	if err != nil {
		return nil, err
	}
	outputs, err := v.request.Infer(ctx, inputs)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, engineError(fmt.Sprintf("voice %s: %v", v.id, err), "")
	}
	for _, out := range outputs {
		samples, err := ov.Data[float32](out)
		if err != nil {
			return nil, engineError(fmt.Sprintf("voice %s: %v", v.id, err), "")
		}
		if i := slices.IndexFunc(samples, func(s float32) bool { return math.IsNaN(float64(s)) || math.IsInf(float64(s), 0) }); i >= 0 {
			return nil, executors.Errorf(executors.CodeNumericError, "voice %s: sample %d of the model's output is not a number", v.id, i)
		}
		return samples, nil // a voice has one output
	}
	return nil, engineError("voice "+v.id+": the model has no output", "")
}

func tensors(ids []int64, scales [3]float32) (map[string]ov.Tensor, error) {
	input, err := ov.New(ids, 1, int64(len(ids)))
	if err != nil {
		return nil, fmt.Errorf("phonemes: %w", err)
	}
	length, err := ov.New([]int64{int64(len(ids))}, 1)
	if err != nil {
		return nil, fmt.Errorf("number of phonemes: %w", err)
	}
	scale, err := ov.New(scales[:], 3)
	if err != nil {
		return nil, fmt.Errorf("scales: %w", err)
	}
	return map[string]ov.Tensor{"input": input, "input_lengths": length, "scales": scale}, nil
}

// toPCM scales samples so that the loudest is level times full scale.
func toPCM(samples []float32, level float64) []int16 {
	peak := 0.01 // below that there is only noise, as in Piper
	for _, s := range samples {
		peak = max(peak, math.Abs(float64(s)))
	}
	gain := level * math.MaxInt16 / peak
	out := make([]int16, len(samples))
	for i, s := range samples {
		out[i] = clip(float64(s) * gain)
	}
	return out
}
