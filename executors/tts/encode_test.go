package tts

import (
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mewkiz/flac"

	"github.com/autobot-fleet/autobot/executors"
)

const spokenText = "The quick brown fox jumps over the lazy dog."

func TestFLACHoldsExactlyTheSamplesOfTheWAV(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, nil)
	want := parseWAV(t, mustSpeak(t, e, map[string]any{"text": spokenText}).file(t))
	s := mustSpeak(t, e, map[string]any{"text": spokenText, "format": "flac"})
	if a := s.artifacts[0]; a.Name != "speech.flac" || a.MediaType != "audio/flac" {
		t.Errorf("artifact %+v", a)
	}
	stream, err := flac.ParseFile(filepath.Join(s.spool, "speech.flac"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	var got []int16
	for {
		frame, err := stream.ParseNext()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range frame.Subframes[0].Samples {
			got = append(got, int16(v))
		}
	}
	if len(got) != len(want.samples) || int(stream.Info.NSamples) != len(got) || int(stream.Info.SampleRate) != want.rate {
		t.Fatalf("%d samples at %d Hz (header: %d), the WAV file has %d at %d", len(got), stream.Info.SampleRate, stream.Info.NSamples, len(want.samples), want.rate)
	}
	for i := range got {
		if got[i] != want.samples[i] {
			t.Fatalf("sample %d is %d, in the WAV file %d", i, got[i], want.samples[i])
		}
	}
	if flacSize, wavSize := size(t, filepath.Join(s.spool, "speech.flac")), int64(44+2*len(want.samples)); flacSize > wavSize*3/4 {
		t.Errorf("FLAC takes %d of %d bytes", flacSize, wavSize)
	}
	onlyTheArtifact(t, s)
}

func TestLossyFormatsDecodeToTheSameSpeech(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, nil)
	want := parseWAV(t, mustSpeak(t, e, map[string]any{"text": spokenText}).file(t))
	for _, tt := range []struct {
		format, file, mediaType string
		decode                  func(in, out string) []string
	}{
		{"mp3", "speech.mp3", "audio/mpeg", func(in, out string) []string { return []string{"lame", "--quiet", "--decode", in, out} }},
		{"opus", "speech.opus", "audio/ogg", func(in, out string) []string { return []string{"opusdec", "--quiet", "--rate", "22050", in, out} }},
	} {
		s := mustSpeak(t, e, map[string]any{"text": spokenText, "format": tt.format})
		if a := s.artifacts[0]; a.Name != tt.file || a.MediaType != tt.mediaType || a.Meta["encoding"] != tt.format {
			t.Errorf("%s: artifact %+v", tt.format, a)
		}
		onlyTheArtifact(t, s)
		out := filepath.Join(t.TempDir(), "decoded.wav")
		argv := tt.decode(filepath.Join(s.spool, tt.file), out)
		if text, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("decode %s with %s (scripts/setup installs it): %v: %s", tt.format, argv[0], err, text)
		}
		raw, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		got := parseWAV(t, raw)
		if drift := math.Abs(float64(len(got.samples)-len(want.samples))) / float64(want.rate); drift > 0.15 {
			t.Errorf("%s: %d samples, the WAV file has %d", tt.format, len(got.samples), len(want.samples))
		}
		if r := loudness(got.samples) / loudness(want.samples); r < 0.8 || r > 1.25 {
			t.Errorf("%s: %.2f times as loud as the WAV file", tt.format, r)
		}
	}
}

func TestAFormatWithoutItsEncoderIsRefusedBeforeSpeaking(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for format, pack := range map[string]string{"mp3": "lame", "opus": "opus-tools"} {
		e := executors.AsError(checkFormatName(format))
		if e == nil || e.Code != executors.CodeUnsupported || e.Field != "format" || e.Hint == "" {
			t.Errorf("%s: %v, want UNSUPPORTED naming %s", format, e, pack)
		}
	}
	if err := checkFormatName("flac"); err != nil {
		t.Errorf("flac needs no program: %v", err)
	}
	if e := executors.AsError(checkFormatName("aac")); e == nil || e.Code != executors.CodeInvalidInput {
		t.Errorf("aac: %v", e)
	}
}

func loudness(samples []int16) float64 {
	wide := make([]float64, len(samples))
	for i, s := range samples {
		wide[i] = float64(s)
	}
	return rms(wide)
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// onlyTheArtifact checks that nothing else is left in the spool directory.
func onlyTheArtifact(t *testing.T, s spoken) {
	t.Helper()
	entries, err := os.ReadDir(s.spool)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != s.artifacts[0].Name {
		t.Errorf("the spool holds %v", entries)
	}
}
