package agent_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/internal/check"
	"github.com/autobot-fleet/autobot/internal/e2e"
)

func TestDoctorNamesTheLineForEachMissingEngine(t *testing.T) {
	t.Parallel()
	cfg := healthy(t, e2e.Executors(t, "general"))
	cfg.Redis.URL = "redis://127.0.0.1:1"
	cfg.Engines.Dir = filepath.Join(t.TempDir(), "engines")
	checks := examine(t, cfg)
	for _, name := range []string{"openvino", "playwright", "all-minilm-l6-v2", "silero-vad"} {
		wantCheck(t, checks, check.LevelNote, "engines: "+name+" is not installed (autobot-agent engines install "+name+")", "")
	}
	l := engines.At(cfg.Engines.Dir)
	for path, text := range map[string]string{
		filepath.Join(l.EnginesDir, "openvino", "2026.4.1", "libopenvino_c.so.2641"): "half of an engine",
		filepath.Join(l.ModelsDir, "mine", engines.CardFile):                         `{"name":"mine"}`,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(l.EnginesDir, 0o777); err != nil {
		t.Fatal(err)
	}
	checks = examine(t, cfg)
	wantCheck(t, checks, check.LevelFault, "may be written by every user", "chmod o-w "+l.EnginesDir)
	wantCheck(t, checks, check.LevelFault, "engines: openvino@2026.4.1 is damaged", "autobot-agent engines install openvino")
	wantCheck(t, checks, check.LevelFault, "model mine: card of model mine", "autobot-agent models remove mine")
}

func TestDoctorFindsTheEnginesOfThisMachine(t *testing.T) {
	t.Parallel()
	cfg := healthy(t, e2e.Executors(t, "general"))
	cfg.Redis.URL = "redis://127.0.0.1:1"
	cfg.Engines.Dir = engines.Locate().EnginesDir
	wantCheck(t, examine(t, cfg), check.LevelOK, "openvino 2026.4.1", "") // else run scripts/setup
}
