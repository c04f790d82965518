package engines_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/agent/engines"
	models "github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/internal/e2e"
)

// The real openvino executor loads real models (scripts/setup installs them).
func TestModelsAreAddedByTheRealExecutor(t *testing.T) {
	t.Parallel()
	here := models.Locate()
	checker := engines.ExecutorChecker{Dirs: []string{e2e.Executors(t, "openvino")}, EnginesDir: here.EnginesDir}
	in, err := engines.New(engines.At(filepath.Join(t.TempDir(), "engines")))
	if err != nil {
		t.Fatal(err)
	}
	_, dir, err := here.Model("ssd-mobilenet-v2")
	if err != nil {
		t.Fatalf("%v; scripts/setup installs it", err)
	}
	c, err := in.AddModel(t.Context(), engines.NewModel{
		File: filepath.Join(dir, "model.tflite"), Name: "mine", Task: models.TaskDetect, Labels: filepath.Join(dir, "labels.txt"),
	}, checker)
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Preprocess; c.Layout != models.LayoutSSD || p.Width != 300 || p.Order != "nhwc" || p.Fit != models.FitStretch || p.Mean[0] != 127.5 {
		t.Errorf("got %+v, %+v", c, p)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "model.tflite"))
	if err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "short.tflite")
	if err := os.WriteFile(short, raw[:len(raw)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = in.AddModel(t.Context(), engines.NewModel{File: short, Name: "short", Task: models.TaskInfer}, checker)
	if err == nil || !strings.Contains(err.Error(), "the engine cannot use this model: ") {
		t.Errorf("half of a model: %v", err)
	}
	if names, err := in.Layout.Models(); err != nil || len(names) != 1 || names[0] != "mine" {
		t.Errorf("models are %v, %v", names, err)
	}
}
