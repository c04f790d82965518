package openvino

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/executorstest"
	"github.com/autobot-fleet/autobot/executors/openvino/onnxtest"
)

func TestWithoutTheLibraryNoTaskIsTaken(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "engines")
	b := executorstest.Binary{Path: executorstest.Build(t, program), Env: []string{executors.EnvEngines + "=" + dir}}
	p := executorstest.Start(t, b)
	d, err := p.Describe(t.Context())
	reasons := strings.Join(d.Reasons, "\n")
	if err != nil || d.Ready || !strings.Contains(reasons, "autobot-agent engines install openvino") || !strings.Contains(reasons, dir) {
		t.Errorf("ready %v, reasons %q, %v", d.Ready, reasons, err)
	}
	if h, err := p.Health(t.Context()); err != nil || h.Ready || h.Message == "" {
		t.Errorf("%+v, %v", h, err)
	}
	r := p.Do(t, p.Attach(t), "anyway", executorstest.Case{Type: "embedding", Payload: `{"text": "hello"}`})
	if r.Err == nil || r.Err.Code != executors.CodeEngineUnavailable || !r.Err.Retryable ||
		!strings.Contains(r.Err.Message, filepath.Join(dir, "openvino")) || !strings.Contains(r.Err.Message, "engines install openvino") {
		t.Errorf("a task sent anyway: %+v", r.Err)
	}
}

// A runtime that is installed later is found without a new process.
func TestARuntimeThatIsInstalledLaterIsFound(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	layout := engines.At(filepath.Join(t.TempDir(), "engines"))
	e, err := NewAt(DefaultSettings(), layout, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	fails(t, e, "embedding", obj{"text": "x"}, executors.CodeEngineUnavailable)
	have := engines.Locate()
	if err := os.MkdirAll(layout.EnginesDir, 0o700); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{filepath.Join(have.EnginesDir, "openvino"): filepath.Join(layout.EnginesDir, "openvino"), have.ModelsDir: layout.ModelsDir} {
		if err := os.Symlink(from, to); err != nil {
			t.Fatal(err)
		}
	}
	do(t, e, "embedding", obj{"text": "x"}, nil)
	if d, err := e.Describe(t.Context()); err != nil || !d.Ready {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestAModelIsCheckedBeforeItIsAdded(t *testing.T) {
	t.Parallel()
	check := func(content []byte) (checked, string, error) {
		t.Helper()
		shelf := t.TempDir()
		addModel(t, shelf, yoloCard("yolov8"), map[string][]byte{"model.onnx": content, "labels.txt": []byte("cat\ndog\n")})
		cmd := exec.Command(executorstest.Build(t, program), CheckFlag, filepath.Join(shelf, "yolov8"))
		var out, bad bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &bad
		err := cmd.Run()
		var found checked
		if err == nil {
			err = json.Unmarshal(out.Bytes(), &found)
		}
		return found, bad.String(), err
	}
	found, _, err := check(yolo(0))
	if err != nil || found.Layout != engines.LayoutYOLO || len(found.Inputs) != 1 || found.Inputs[0].Name != "images" || found.Outputs[0].Type != "f32" || found.Engine == "" {
		t.Errorf("%+v, %v", found, err)
	}
	if _, said, err := check([]byte("no model")); err == nil || strings.Count(said, "\n") != 1 || !strings.Contains(said, "model.onnx") {
		t.Errorf("a file that is no model: %q, %v", said, err)
	}
	if found, _, err := check(onnxtest.Product().Bytes()); err != nil || found.Layout != "" {
		t.Errorf("a model whose sizes depend on each other: %+v, %v", found, err)
	}
}
