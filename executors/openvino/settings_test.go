package openvino

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		mutate func(*Settings)
		want   string // part of the error; empty means valid
	}{
		{"the defaults are valid", func(*Settings) {}, ""},
		{"a device with a number", func(s *Settings) { s.Devices = []string{"GPU.1", "CPU"} }, ""},
		{"nothing is remembered", func(s *Settings) { s.EmbedCache, s.EmbedCacheTTL, s.CacheMB, s.IdleUnload = 0, 0, 0, 0 }, ""},
		{"no devices", func(s *Settings) { s.Devices = []string{} }, "devices: must name"},
		{"the runtime's own choice", func(s *Settings) { s.Devices = []string{"CPU", "AUTO"} }, "devices[1]:"},
		{"roots are absolute", func(s *Settings) { s.InputRoots = executors.InputRoots{"data"} }, "input_roots:"},
		{"aliases are names", func(s *Settings) { s.ModelAliases = map[string]string{"yolov8": "../x"} }, "model_aliases:"},
		{"models are names", func(s *Settings) { s.OCRModel = "a/b" }, "ocr_model:"},
		{"memory for no model", func(s *Settings) { s.MaxLoadedMB = 63 }, "max_loaded_mb:"},
		{"a cache below nothing", func(s *Settings) { s.CacheMB = -1 }, "cache_mb:"},
		{"threads", func(s *Settings) { s.Threads = -1 }, "threads:"},
		{"no slot", func(s *Settings) { s.Slots = 0 }, "slots:"},
		{"too many tasks", func(s *Settings) { s.Concurrency = 257 }, "concurrency:"},
		{"no batch", func(s *Settings) { s.MaxBatch = 0 }, "max_batch:"},
		{"vectors below nothing", func(s *Settings) { s.EmbedCache = -1 }, "embed_cache:"},
		{"a negative pause", func(s *Settings) { s.Cooldown = -time.Second }, "cooldown:"},
		{"no time to load", func(s *Settings) { s.LoadTimeout = 0 }, "load_timeout:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := DefaultSettings()
			tt.mutate(&s)
			err := s.Validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), "executors.openvino."+tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	all := DefaultSettings()
	all.Slots, all.Threads = 0, -1
	if err := all.Validate(); err == nil || !strings.Contains(err.Error(), "slots") || !strings.Contains(err.Error(), "threads") {
		t.Errorf("not all at once: %v", err)
	}
}

func TestSettingsAreReadAsTheAgentWritesThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(path, []byte(`{"idle_unload": "90s", "devices": ["CPU"], "model_aliases": {"yolov8": "mine"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(executors.EnvConfig, path)
	s := DefaultSettings()
	if err := executors.Settings(&s); err != nil {
		t.Fatal(err)
	}
	if s.IdleUnload != 90*time.Second || len(s.Devices) != 1 || s.ModelAliases["yolov8"] != "mine" || s.MaxBatch != 32 {
		t.Errorf("%+v", s)
	}
}
