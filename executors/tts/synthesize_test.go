package tts

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/autobot-fleet/autobot/executors"
)

func TestTwoSentencesBecomeOneFile(t *testing.T) {
	t.Parallel()
	s := mustSpeak(t, newExecutor(t, nil), map[string]any{"op": "synthesize", "text": "Hello world. Second sentence."})
	w := parseWAV(t, s.file(t))
	if w.rate != 22050 || w.channels != 1 || w.bits != 16 || len(w.samples) == 0 {
		t.Errorf("%d Hz, %d channels, %d bits, %d samples", w.rate, w.channels, w.bits, len(w.samples))
	}
	if got := s.artifacts[0]; got.Name != "speech.wav" || got.Kind != "audio" || got.MediaType != "audio/wav" {
		t.Errorf("artifact %+v", got)
	}
	out := s.output
	if out.Chars != 29 || out.Voice != "en-us" || out.Engine != "espeak-ng" || out.SampleRate != 22050 || out.Channels != 1 || out.BitDepth != 16 {
		t.Errorf("output %+v", out)
	}
	if len(out.Segments) != 2 || out.Segments[0].TextChars != 12 || out.Segments[1].TextChars != 16 {
		t.Fatalf("segments %+v", out.Segments)
	}
	// espeak-ng 1.51 says the first sentence in 1.05 s.
	if d := out.Segments[0].DurationMS; d < 800 || d > 1400 {
		t.Errorf("the first sentence takes %d ms", d)
	}
	if want := int64(len(w.samples)) * 1000 / 22050; out.DurationMS != want {
		t.Errorf("duration %d ms, the file has %d ms", out.DurationMS, want)
	}
	if sum := out.Segments[0].DurationMS + out.Segments[1].DurationMS; sum != out.DurationMS || out.Segments[1].StartMS != out.Segments[0].DurationMS {
		t.Errorf("segments %+v do not add up to %d ms", out.Segments, out.DurationMS)
	}
	onlyFile(t, s.spool, "speech.wav")
}

func TestResultHasTheKeysOfTheContract(t *testing.T) {
	t.Parallel()
	s := mustSpeak(t, newExecutor(t, nil), map[string]any{"text": "Hello"})
	var keys map[string]any
	if err := json.Unmarshal(s.result.Output, &keys); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"duration_ms", "sample_rate", "channels", "bit_depth", "segments", "voice", "engine", "chars"} {
		if _, ok := keys[k]; !ok {
			t.Errorf("no key %s in %s", k, s.result.Output)
		}
		delete(keys, k)
	}
	if len(keys) > 0 {
		t.Errorf("further keys %v", keys)
	}
}

func TestProgressRisesThroughTheStages(t *testing.T) {
	t.Parallel()
	s := mustSpeak(t, newExecutor(t, nil), map[string]any{"text": "One. Two. Three. Four. Five."})
	var stages []string
	last := 0
	for _, p := range s.progress {
		if p.Percent < last {
			t.Errorf("percent falls from %d to %d", last, p.Percent)
		}
		last = p.Percent
		if n := len(stages); n == 0 || stages[n-1] != p.Stage {
			stages = append(stages, p.Stage)
		}
		if p.Stage == stageSynthesize && (p.Total != 5 || p.Unit != "segment") {
			t.Errorf("progress %+v", p)
		}
	}
	if diff := cmp.Diff([]string{"load", "normalize", "synthesize", "encode"}, stages); diff != "" {
		t.Error(diff)
	}
	if last != 100 {
		t.Errorf("ends at %d%%", last)
	}
}

func TestBadTextIsRefusedBeforeTheEngineStarts(t *testing.T) {
	t.Parallel()
	e := NewWithEngine(DefaultSettings(), silentEngine{t})
	for name, raw := range map[string]string{
		"empty":               `{"text": ""}`,
		"blank":               `{"text": "  \n"}`,
		"missing":             `{}`,
		"NUL":                 `{"text": "a\u0000b"}`,
		"escape":              `{"text": "a\u001bb"}`,
		"bad UTF-8":           "{\"text\": \"a\xff\"}",
		"half surrogate pair": `{"text": "a\ud800b"}`,
	} {
		s := run(t.Context(), t, e, json.RawMessage(raw), nil)
		if s.err == nil || s.err.Code != executors.CodeInvalidInput || s.err.Retryable || (s.err.Field != "text" && name != "bad UTF-8") {
			t.Errorf("%s: %+v", name, s.err)
		}
		onlyFile(t, s.spool)
	}
}

func TestAReplacementCharacterThatWasWrittenIsText(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`{"text": "a \ufffd b"}`, "{\"text\": \"a \ufffd b\"}"} {
		if s := run(t.Context(), t, newExecutor(t, nil), json.RawMessage(raw), nil); s.err != nil {
			t.Error(s.err)
		}
	}
}

func TestOddTextIsSpokenLiterally(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, nil)
	for _, text := range []string{"-5 degrees", "--help", "$(id)", "-w /tmp/x", "😀", "<b>x</b>", "; rm -rf /", "[[hello]]", "[[[[a]]]]", "中文"} {
		s := mustSpeak(t, e, map[string]any{"text": text})
		if s.output.DurationMS < 200 {
			t.Errorf("%q takes %d ms", text, s.output.DurationMS)
		}
	}
	// Two opening brackets would make espeak-ng read phoneme names.
	plain := mustSpeak(t, e, map[string]any{"text": "hello"})
	marked := mustSpeak(t, e, map[string]any{"text": "[[h@loU]]"})
	if marked.output.DurationMS < plain.output.DurationMS*5/4 {
		t.Errorf("[[h@loU]] takes %d ms, hello %d ms: it was read as phonemes", marked.output.DurationMS, plain.output.DurationMS)
	}
}

func TestTextWithoutASoundIsAnError(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, nil)
	for _, text := range []string{"...", "-", "?!", "***"} {
		s := run(t.Context(), t, e, payload(t, map[string]any{"text": text}), nil)
		if s.err == nil || s.err.Code != executors.CodeInvalidInput {
			t.Errorf("%q: %v", text, s.err)
		}
		onlyFile(t, s.spool)
	}
}

func TestFieldsAreChecked(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, nil)
	for _, tt := range []struct {
		name  string
		field string
		value any
		code  executors.Code
		says  string
	}{
		{"voice with a path", "voice", "../../etc/passwd", executors.CodeInvalidInput, "voice"},
		{"voice that is not there", "voice", "nosuch", executors.CodeNotFound, "op list_voices"},
		{"voice alias that is not there", "voice_id", "en-uss", executors.CodeNotFound, "en-us"},
		{"neural voice that is not installed", "voice", "en-us-nobody-medium", executors.CodeNotFound, "engines list"},
		{"language that nobody speaks", "language", "xx-YY", executors.CodeNotFound, "op list_voices"},
		{"language that is none", "language", "!", executors.CodeInvalidInput, "BCP-47"},
		{"unknown format", "format", "aiff", executors.CodeInvalidInput, "wav"},
		{"rate of nobody", "sample_rate", 11025, executors.CodeInvalidInput, "22050"},
		{"too fast", "rate_wpm", 9999, executors.CodeInvalidInput, "450"},
		{"too slow", "rate_wpm", 79, executors.CodeInvalidInput, "80"},
		{"pitch", "pitch", 100, executors.CodeInvalidInput, "99"},
		{"volume", "volume", 2.1, executors.CodeInvalidInput, "2"},
		{"negative volume", "volume", -0.1, executors.CodeInvalidInput, "0"},
		{"peak", "peak_normalize", 1.5, executors.CodeInvalidInput, "1"},
		{"ssml that is none", "ssml", true, executors.CodeInvalidInput, "<speak>"},
		{"segments", "segments", "manual", executors.CodeInvalidInput, "auto"},
		{"normalize of the wrong type", "normalize", 5, executors.CodeInvalidInput, "normalize"},
		{"normalize switch that is not there", "normalize", map[string]any{"emoji": true}, executors.CodeInvalidInput, "emoji"},
		{"unknown field", "nosuch", 1, executors.CodeInvalidInput, "nosuch"},
		{"unknown op", "op", "sing", executors.CodeUnsupported, "synthesize"},
		{"cloning", "op", "create_voice", executors.CodeUnsupported, "clone"},
		{"deleting", "op", "delete_voice", executors.CodeUnsupported, "clone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := run(t.Context(), t, e, payload(t, map[string]any{"text": "Hello.", tt.field: tt.value}), nil)
			if s.err == nil || s.err.Code != tt.code || s.err.Retryable || !strings.Contains(s.err.Error(), tt.says) {
				t.Errorf("%+v", s.err)
			}
			onlyFile(t, s.spool)
		})
	}
}

func TestTextLengthIsLimited(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, nil)
	s := run(t.Context(), t, e, payload(t, map[string]any{"text": longText(5001)}), nil)
	if s.err == nil || s.err.Code != executors.CodeTooLarge || !strings.Contains(s.err.Message, "executors.tts.max_runes") {
		t.Errorf("%+v", s.err)
	}
	s = mustSpeak(t, e, map[string]any{"text": " " + longText(5000) + "\n"})
	if s.output.Chars != 5000 || s.output.DurationMS < 200_000 {
		t.Errorf("%d runes took %d ms", s.output.Chars, s.output.DurationMS)
	}
	parseWAV(t, s.file(t))
}

func TestFileSizeIsLimited(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, func(s *Settings) { s.MaxBytes = 64 << 10 })
	s := run(t.Context(), t, e, payload(t, map[string]any{"text": longText(500)}), nil)
	if s.err == nil || s.err.Code != executors.CodeTooLarge || !strings.Contains(s.err.Message, "executors.tts.max_bytes") {
		t.Errorf("%+v", s.err)
	}
	onlyFile(t, s.spool)
}

func TestRateChangesTheDuration(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, nil)
	text := "The quick brown fox jumps over the lazy dog near the river bank."
	slow := mustSpeak(t, e, map[string]any{"text": text, "rate_wpm": 100}).output.DurationMS
	usual := mustSpeak(t, e, map[string]any{"text": text}).output.DurationMS
	fast := mustSpeak(t, e, map[string]any{"text": text, "rate_wpm": 350}).output.DurationMS
	// 13 words at 175 words a minute are 4.5 s.
	if usual < 3000 || usual > 6000 || slow < usual*5/4 || fast > usual*3/4 {
		t.Errorf("100, 175, 350 wpm: %d, %d, %d ms", slow, usual, fast)
	}
}

func TestSampleRatesKeepTheDuration(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, nil)
	want := mustSpeak(t, e, map[string]any{"text": "Hello world."}).output.DurationMS
	for _, rate := range sampleRates {
		s := mustSpeak(t, e, map[string]any{"text": "Hello world.", "sample_rate": rate})
		w := parseWAV(t, s.file(t))
		if w.rate != rate || s.output.SampleRate != rate {
			t.Errorf("asked for %d Hz, got %d", rate, w.rate)
		}
		if d := s.output.DurationMS - want; d < -1 || d > 1 {
			t.Errorf("%d Hz: %d ms, want %d", rate, s.output.DurationMS, want)
		}
		if w.peak() < 0.05 {
			t.Errorf("%d Hz: peak %f", rate, w.peak())
		}
	}
}

func TestRawPCMIsTheSameWithoutTheHeader(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, nil)
	wav := mustSpeak(t, e, map[string]any{"text": "Hello world."}).file(t)
	s := mustSpeak(t, e, map[string]any{"text": "Hello world.", "format": "pcm_s16le"})
	if s.artifacts[0].Name != "speech.pcm" || sha256.Sum256(s.file(t)) != sha256.Sum256(wav[44:]) {
		t.Errorf("%s differs from the samples of the WAV file", s.artifacts[0].Name)
	}
}

func TestPeakNormalize(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, nil)
	for _, format := range []string{formatWAV, formatPCM} {
		s := mustSpeak(t, e, map[string]any{"text": "Hello world.", "volume": 0.3, "peak_normalize": 0.9, "format": format})
		data := s.file(t)
		if format == formatPCM {
			data = append(wavHeader(22050, uint32(len(data))), data...)
		}
		if p := parseWAV(t, data).peak(); math.Abs(p-0.9) > 0.001 {
			t.Errorf("%s: peak %f", format, p)
		}
	}
	s := mustSpeak(t, e, map[string]any{"text": "Hello world.", "volume": 0, "peak_normalize": 0.9})
	if parseWAV(t, s.file(t)).peak() != 0 || len(s.result.Warnings) != 1 || s.result.Warnings[0].Code != "PEAK_NORMALIZE_SKIPPED" {
		t.Errorf("silence was changed: %+v", s.result.Warnings)
	}
}

func TestVolume(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, nil)
	quiet := parseWAV(t, mustSpeak(t, e, map[string]any{"text": "Hello world.", "volume": 0.5}).file(t)).peak()
	usual := parseWAV(t, mustSpeak(t, e, map[string]any{"text": "Hello world."}).file(t)).peak()
	if quiet > usual*0.7 || quiet < usual*0.3 {
		t.Errorf("volume 0.5 and 1: peaks %f, %f", quiet, usual)
	}
}

func TestManyTasksAtOnceGiveTheSameFile(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, func(s *Settings) { s.Concurrency = 8 })
	text := "One task among many. They do not disturb each other."
	want := sha256.Sum256(mustSpeak(t, e, map[string]any{"text": text}).file(t))
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			s := run(t.Context(), t, e, payload(t, map[string]any{"text": text}), nil)
			if s.err != nil {
				t.Error(s.err)
				return
			}
			if data, err := os.ReadFile(filepath.Join(s.spool, "speech.wav")); err != nil || sha256.Sum256(data) != want {
				t.Errorf("a task at the same time changed the file (%v)", err)
			}
		})
	}
	wg.Wait()
}

func TestLongNumberListsLoseNothing(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	for i := 1; i <= 1000; i++ {
		lines.WriteString(strings.Repeat(" ", i%2) + itoa(i) + "\n")
	}
	s := mustSpeak(t, newExecutor(t, func(s *Settings) { s.MaxBytes = 256 << 20 }), map[string]any{"text": lines.String(), "voice": "ru", "rate_wpm": 450})
	for _, seg := range s.output.Segments {
		if seg.DurationMS < int64(seg.TextChars)*25 {
			t.Errorf("segment %+v is too short", seg)
		}
	}
}

func TestTrailingFullStopAddsNoSound(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, nil)
	with := mustSpeak(t, e, map[string]any{"text": "Hello."}).output.DurationMS
	without := mustSpeak(t, e, map[string]any{"text": "Hello"}).output.DurationMS
	if with != without {
		t.Errorf("Hello. takes %d ms, Hello %d ms", with, without)
	}
}

func TestAliases(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, nil)
	s := mustSpeak(t, e, map[string]any{"input_data": map[string]any{"text": "Guten Tag."}, "voice_id": "de"})
	if s.output.Voice != "de" || s.output.Chars != 10 {
		t.Errorf("%+v", s.output)
	}
}

func TestDeadlineEndsTheTask(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s := run(ctx, t, newExecutor(t, nil), payload(t, map[string]any{"text": longText(5000)}), nil)
	if s.err == nil || s.err.Code != executors.CodeDeadlineExceeded {
		t.Errorf("%v", s.err)
	}
	onlyFile(t, s.spool)
}

func TestAFullDiskHasItsOwnCode(t *testing.T) {
	t.Parallel()
	err := executors.AsError(diskFull(fmt.Errorf("write the audio file: %w", unix.ENOSPC)))
	if err.Code != executors.CodeResourceExhausted || !err.Retryable || err.Hint == "" {
		t.Errorf("%+v", err)
	}
	if err := diskFull(context.Canceled); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
