package tts

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// Ids of a Piper voice with a fixed meaning, by their phoneme.
const (
	piperPad   = "_"
	piperStart = "^"
	piperEnd   = "$"
)

// piperConfig is what the .onnx.json file of a Piper voice says, as far as it
// matters for speaking.
type piperConfig struct {
	Audio struct {
		SampleRate int `json:"sample_rate"`
	} `json:"audio"`
	Espeak struct {
		Voice string `json:"voice"`
	} `json:"espeak"`
	Inference struct {
		NoiseScale  float64 `json:"noise_scale"`
		LengthScale float64 `json:"length_scale"`
		NoiseW      float64 `json:"noise_w"`
	} `json:"inference"`
	PhonemeType string             `json:"phoneme_type"`
	PhonemeIDs  map[string][]int64 `json:"phoneme_id_map"`
	Speakers    int                `json:"num_speakers"`
	Language    struct {
		Code string `json:"code"`
	} `json:"language"`
}

// parsePiperConfig reads and checks the configuration of a voice.
func parsePiperConfig(raw []byte) (piperConfig, error) {
	var c piperConfig
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, fmt.Errorf("is not the configuration of a Piper voice: %w", err)
	}
	scales := []float64{c.Inference.NoiseScale, c.Inference.LengthScale, c.Inference.NoiseW}
	for _, s := range scales {
		if math.IsNaN(s) || s < 0 || s > 10 {
			return c, fmt.Errorf("inference: scale %v is outside of 0..10", s)
		}
	}
	switch {
	case c.Audio.SampleRate < 8000 || c.Audio.SampleRate > 48000:
		return c, fmt.Errorf("audio.sample_rate: %d is outside of 8000..48000", c.Audio.SampleRate)
	case c.PhonemeType != "" && c.PhonemeType != "espeak":
		return c, fmt.Errorf("phoneme_type: %q is not supported, only voices with phonemes of espeak-ng are", short(c.PhonemeType, 40))
	case c.Espeak.Voice == "":
		return c, errors.New("espeak.voice: is missing")
	case c.Speakers > 1:
		return c, fmt.Errorf("num_speakers: %d speakers in one model are not supported", c.Speakers)
	case c.Inference.LengthScale == 0:
		return c, errors.New("inference.length_scale: must be above 0")
	}
	for _, p := range []string{piperPad, piperStart, piperEnd} {
		if len(c.PhonemeIDs[p]) == 0 {
			return c, fmt.Errorf("phoneme_id_map: has no id for %q", p)
		}
	}
	return c, nil
}

// ids turns the phonemes of a sentence into the input of the model: start, pad,
// each phoneme followed by a pad, end. What the voice does not know is left
// out, as Piper does it.
func (c piperConfig) ids(phonemes string) []int64 {
	pad := c.PhonemeIDs[piperPad]
	out := append(append([]int64{}, c.PhonemeIDs[piperStart]...), pad...)
	for _, r := range phonemes {
		id, ok := c.PhonemeIDs[string(r)]
		if !ok {
			continue
		}
		out = append(append(out, id...), pad...)
	}
	return append(out, c.PhonemeIDs[piperEnd]...)
}
