package tts_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/executorstest"
	"github.com/autobot-fleet/autobot/executors/tts"
)

func binary(t *testing.T) executorstest.Binary {
	t.Helper()
	settings := tts.DefaultSettings()
	settings.MaxRunes = tts.LimitMaxRunes
	settings.MaxBytes = 1 << 30
	settings.Concurrency = 2
	return executorstest.Binary{
		Path:     executorstest.Build(t, "github.com/autobot-fleet/autobot/executors/tts/cmd/autobot-executor-tts"),
		Settings: settings,
	}
}

func text(t *testing.T, fields map[string]any) string {
	t.Helper()
	raw, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestContract(t *testing.T) {
	t.Parallel()
	b := binary(t)
	b.Tasks = []executorstest.Case{
		{Name: "two sentences", Type: "tts", Payload: `{"text": "Hello world. Second sentence."}`, Check: wantSpeech(2)},
		{Name: "list_voices", Type: "tts", Payload: `{"op": "list_voices"}`},
		{Name: "bad UTF-8", Type: "tts", Payload: "{\"text\": \"a\xff\"}", Code: executors.CodeInvalidInput},
		{Name: "no such voice", Type: "tts", Payload: `{"text": "a", "voice": "nosuch"}`, Code: executors.CodeNotFound},
		{Name: "cloning", Type: "tts", Payload: `{"op": "create_voice"}`, Code: executors.CodeUnsupported},
	}
	// A process for each of 16,000 sentences takes minutes.
	b.Long = executorstest.Case{Type: "tts", Payload: text(t, map[string]any{"text": strings.Repeat("A! ", 16000), "rate_wpm": 450})}
	executorstest.Run(t, b)
}

func wantSpeech(segments int) func(*testing.T, executorstest.Report) {
	return func(t *testing.T, r executorstest.Report) {
		t.Helper()
		var out struct {
			DurationMS int64 `json:"duration_ms"`
			Segments   []any `json:"segments"`
		}
		r.Output(t, &out)
		if out.DurationMS < 500 || len(out.Segments) != segments || len(r.Artifacts()) != 1 {
			t.Fatalf("output %s, artifacts %v", r.Result.Output, r.Artifacts())
		}
		info, err := os.Stat(filepath.Join(r.Spool, r.Artifacts()[0].Name))
		if err != nil || info.Size() < 44+out.DurationMS*44 {
			t.Errorf("artifact: %v, %v", info, err)
		}
	}
}

func TestMemoryDoesNotGrowWithTheText(t *testing.T) {
	t.Parallel()
	p := executorstest.Start(t, binary(t))
	s := p.Attach(t)
	sentence := "The agent speaks a sentence of some length, and then another one. "
	for _, runes := range []int{5000, 20000} {
		r := p.Do(t, s, fmt.Sprintf("task-%d", runes), executorstest.Case{Type: "tts", Payload: text(t, map[string]any{
			"text": strings.Repeat(sentence, runes/len(sentence)), "sample_rate": 48000, "peak_normalize": 0.9,
		})})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if peak := peakRSS(t, p.PID()); peak > 150<<10 {
			t.Errorf("%d runes: %d KiB", runes, peak)
		} else {
			t.Logf("%d runes: peak of %d KiB", runes, peak)
		}
	}
}

// peakRSS is the most memory the process ever had, in KiB.
func peakRSS(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kib := 0
	if _, err := fmt.Sscan(after, &kib); err != nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	return kib
}

// Without the engine the process says what is missing, and refuses tasks.
func TestWithoutTheEngineTasksAreRefused(t *testing.T) {
	t.Parallel()
	b := binary(t)
	b.Env = []string{"PATH=" + t.TempDir()}
	p := executorstest.Start(t, b)
	d, err := p.Describe(t.Context())
	if err != nil || d.Ready || len(d.Reasons) != 1 || !strings.Contains(d.Reasons[0], "apt-get install espeak-ng") {
		t.Errorf("%+v, %v", d, err)
	}
	r := p.Do(t, p.Attach(t), "task", executorstest.Case{Type: "tts", Payload: `{"text": "Hello."}`})
	if r.Err == nil || r.Err.Code != executors.CodeEngineUnavailable || !strings.Contains(r.Err.Message, "espeak-ng not found") {
		t.Errorf("%+v", r.Err)
	}
}

func TestAMistakeInTheSettingsIsShown(t *testing.T) {
	t.Parallel()
	for setting, says := range map[string]string{
		"max_runs":  "max_runes",
		"max_runes": "50000",
	} {
		b := binary(t)
		b.Settings = map[string]any{setting: 50001}
		d, err := executorstest.Start(t, b).Describe(t.Context())
		if err != nil || d.Ready || len(d.Reasons) != 1 || !strings.Contains(d.Reasons[0], says) {
			t.Errorf("%s: %+v, %v", setting, d, err)
		}
	}
}
