package tts

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.MainThen(m, closeJoe) }

// spoken is all that one task gave.
type spoken struct {
	output    speech
	result    executors.Result
	err       *executors.Error
	progress  []executors.Progress
	artifacts []executors.Artifact
	spool     string
}

func (s spoken) file(t *testing.T) []byte {
	t.Helper()
	if len(s.artifacts) != 1 {
		t.Fatalf("%d artifacts, want 1", len(s.artifacts))
	}
	data, err := os.ReadFile(filepath.Join(s.spool, s.artifacts[0].Name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func newExecutor(t testing.TB, change func(*Settings)) *Executor {
	t.Helper()
	s := DefaultSettings()
	if change != nil {
		change(&s)
	}
	e, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func payload(t testing.TB, fields map[string]any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// run executes one task to its end. on, if any, sees each event.
func run(ctx context.Context, t testing.TB, e *Executor, raw json.RawMessage, on func(executors.Event)) spoken {
	t.Helper()
	s := spoken{spool: t.TempDir()}
	var mu sync.Mutex
	task := executors.NewTask(executors.Task{ID: "t1", Attempt: 1, Type: Name, Payload: raw, SpoolDir: s.spool}, func(ev executors.Event) {
		mu.Lock()
		defer mu.Unlock()
		if ev.Progress != nil {
			s.progress = append(s.progress, *ev.Progress)
		}
		if ev.Artifact != nil {
			s.artifacts = append(s.artifacts, *ev.Artifact)
		}
		if on != nil {
			on(ev)
		}
	})
	res, err := e.Execute(ctx, task)
	s.result, s.err = res, executors.AsError(err)
	if err == nil && res.Op == opSynthesize {
		if err := json.Unmarshal(res.Output, &s.output); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func mustSpeak(t testing.TB, e *Executor, fields map[string]any) spoken {
	t.Helper()
	s := run(t.Context(), t, e, payload(t, fields), nil)
	if s.err != nil {
		t.Fatalf("%v: %v", fields, s.err)
	}
	return s
}

// wavFile is what the tests' own reader, which shares nothing with the code
// under test, finds in a file.
type wavFile struct {
	rate, channels, bits int
	samples              []int16
}

func parseWAV(t testing.TB, b []byte) wavFile {
	t.Helper()
	le16 := func(at int) int { return int(binary.LittleEndian.Uint16(b[at:])) }
	le32 := func(at int) int { return int(binary.LittleEndian.Uint32(b[at:])) }
	switch {
	case len(b) < 44:
		t.Fatalf("%d bytes are no WAV file", len(b))
	case string(b[:4]) != "RIFF" || string(b[8:16]) != "WAVEfmt " || string(b[36:40]) != "data":
		t.Fatalf("header % x", b[:44])
	case le32(4) != len(b)-8:
		t.Fatalf("RIFF size %d in a file of %d bytes", le32(4), len(b))
	case le32(40) != len(b)-44:
		t.Fatalf("data size %d in a file of %d bytes", le32(40), len(b))
	case le32(16) != 16 || le16(20) != 1:
		t.Fatalf("format chunk of %d bytes, format %d", le32(16), le16(20))
	case le32(28) != le32(24)*le16(22)*le16(34)/8 || le16(32) != le16(22)*le16(34)/8:
		t.Fatalf("byte rate %d, frame of %d bytes", le32(28), le16(32))
	}
	w := wavFile{rate: le32(24), channels: le16(22), bits: le16(34)}
	for at := 44; at+1 < len(b); at += 2 {
		w.samples = append(w.samples, int16(le16(at)))
	}
	return w
}

func (w wavFile) peak() float64 {
	peak := 0.0
	for _, s := range w.samples {
		peak = max(peak, math.Abs(float64(s)))
	}
	return peak / math.MaxInt16
}

// longText has exactly n runes of sentences.
func longText(n int) string {
	const sentence = "The agent speaks a sentence of some length, and then another one. "
	return strings.Repeat(sentence, n/len(sentence)+1)[:n-1] + "x"
}

func itoa(n int) string { return string(must(json.Marshal(n))) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// onlyFile fails unless dir holds exactly the named files.
func onlyFile(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(names, got); diff != "" {
		t.Errorf("files in the spool: %s", diff)
	}
}

// silentEngine fails the test when it is asked to speak.
type silentEngine struct{ t *testing.T }

func (silentEngine) Name() string                          { return "silent" }
func (silentEngine) Probe(context.Context) (string, error) { return "1", nil }
func (silentEngine) Concurrency() int                      { return 1 }
func (silentEngine) Voices(context.Context) ([]Voice, error) {
	return []Voice{{ID: "en-us", Language: "en-us", SampleRate: 22050}}, nil
}
func (e silentEngine) Synthesize(context.Context, Segment, func([]int16) error) error {
	e.t.Error("the engine was started")
	return errors.New("not asked for")
}
