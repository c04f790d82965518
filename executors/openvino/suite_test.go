package openvino

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/executorstest"
	"github.com/autobot-fleet/autobot/executors/openvino/onnxtest"
)

const program = "github.com/autobot-fleet/autobot/executors/openvino/cmd/autobot-executor-openvino"

// installation is a folder of engines with the installed runtimes, or only one
// version of them, and the installed models, to which a test may add its own.
func installation(t *testing.T, version string) (enginesDir string) {
	t.Helper()
	have := engines.Locate()
	root := t.TempDir()
	link := func(target, path string) {
		if _, err := os.Stat(target); err != nil {
			t.Fatalf("%v (scripts/setup installs what the tests need)", err)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	enginesDir = filepath.Join(root, "engines")
	link(filepath.Join(have.EnginesDir, "openvino", version), filepath.Join(enginesDir, "openvino", version))
	for _, model := range []string{"all-minilm-l6-v2", "ssd-mobilenet-v2", "pp-ocr-v4", "silero-vad", "magika"} {
		link(filepath.Join(have.ModelsDir, model), filepath.Join(root, "models", model))
	}
	link(have.DataDir, filepath.Join(root, "data"))
	return enginesDir
}

// newest is the version of the runtime that is used on this machine.
func newest(t *testing.T) string {
	t.Helper()
	_, version, err := engines.Locate().OpenVINO()
	if err != nil {
		t.Fatalf("%v (scripts/setup installs what the tests need)", err)
	}
	return version
}

func TestContract(t *testing.T) {
	t.Parallel()
	dir := installation(t, newest(t))
	shelf := filepath.Join(filepath.Dir(dir), "models")
	addModel(t, shelf, engines.Card{Name: "slow", Task: engines.TaskInfer}, map[string][]byte{"model.onnx": onnxtest.Slow(512, 40).Bytes()})
	cat := picture(t, "chelsea.png")
	says := func(parts ...string) func(*testing.T, executorstest.Report) {
		return func(t *testing.T, r executorstest.Report) {
			t.Helper()
			for _, part := range parts {
				if !strings.Contains(string(r.Result.Output), part) {
					t.Errorf("%.300s does not say %s", r.Result.Output, part)
				}
			}
		}
	}
	executorstest.Run(t, executorstest.Binary{
		Path: executorstest.Build(t, program),
		Env:  []string{executors.EnvEngines + "=" + dir},
		Settings: map[string]any{
			"input_roots": []string{engines.Locate().DataDir}, "concurrency": 4, "model_aliases": map[string]string{"yolov8": "ssd-mobilenet-v2"},
		},
		Tasks: []executorstest.Case{
			{Name: "embed", Type: "embedding", Payload: `{"texts": ["Hello world.", "A second text."]}`, Check: says(`"count":2`, `"dim":384`, `"device":"CPU"`)},
			{Name: "search", Type: "embedding", Payload: `{"op": "search", "query": "a pet", "texts": ["A cat sleeps.", "The market fell."], "threshold": 0}`, Check: says(`"results":[{"index":0`)},
			{Name: "detect", Type: "vision", Payload: `{"image_path": "` + cat + `"}`, Check: says(`"label":"Cat"`)},
			{Name: "seed", Type: "npu_inference", Payload: `{"model": "yolov8", "image_path": "` + cat + `"}`, Check: says(`"label":"Cat"`, `"name":"ssd-mobilenet-v2"`)},
			{Name: "annotate", Type: "vision", Payload: `{"op": "detect", "annotate": true, "image_path": "` + cat + `"}`, Check: func(t *testing.T, r executorstest.Report) {
				if a := r.Artifacts(); len(a) != 1 || a[0].Name != "objects.png" {
					t.Errorf("artifacts %+v", a)
				}
			}},
			{Name: "ocr", Type: "vision", Payload: `{"op": "ocr", "image_path": "` + picture(t, "page.png") + `"}`, Check: says("Region-based")},
			{Name: "infer", Type: "openvino", Payload: `{"model": "magika", "inputs": {"bytes": {"dtype": "i32", "data": [[` + strings.Repeat("65,", 2047) + `65]]}}}`, Check: says(`"target_label"`)},
			{Name: "load", Type: "openvino", Payload: `{"op": "load_model", "model": "silero-vad"}`, Check: says(`"device":"CPU"`)},
			{Name: "unload", Type: "openvino", Payload: `{"op": "unload_model", "model": "silero-vad"}`, Check: says(`"unloaded":1`)},
			{Name: "devices", Type: "npu_inference", Payload: `{"op": "device_info"}`, Check: says(`"id":"CPU"`, `"selected":"CPU"`)},
			{Name: "benchmark", Type: "npu_inference", Payload: `{"op": "benchmark", "model": "silero-vad", "runs": 5}`, Check: says(`"p50_ms"`)},
			{Name: "classify without such a model", Type: "vision", Payload: `{"op": "classify", "image_path": "` + cat + `"}`, Code: executors.CodeInvalidInput},
			{Name: "embed_image without such a model", Type: "vision", Payload: `{"op": "embed_image", "model": "all-minilm-l6-v2", "image_path": "` + cat + `"}`, Code: executors.CodeUnsupported},
			{Name: "an NPU that is not there", Type: "embedding", Payload: `{"text": "x", "device": "NPU"}`, Code: executors.CodeDeviceUnavailable},
		},
		Long: executorstest.Case{Type: "openvino", Payload: `{"op": "benchmark", "model": "slow", "runs": 10000, "warmup": 10000}`},
	})
}

// Releases differ in the numbers of element types and names of outputs.
func TestOlderReleasesGiveTheSameAnswers(t *testing.T) {
	t.Parallel()
	versions, err := engines.Locate().Versions("openvino")
	if err != nil || len(versions) < 2 {
		t.Fatalf("an older runtime is needed beside %v, %v (scripts/setup installs openvino@2025.4.1)", versions, err)
	}
	for _, version := range versions {
		if version == newest(t) {
			continue
		}
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			runTests(t, "^(TestVectorsAreThoseOfTheReference|TestVoiceDetectorGivesTheReferenceValues|TestKnownObjectsAreFound|TestDrawnTextIsReadBack|TestFileTypesAreRecognised|TestTheSeedsPayloadRuns|TestWhatIsNotANumberIsNeitherGivenNorRemembered|TestTensorsThatDoNotFitNameTheirField)$",
				executors.EnvEngines+"="+installation(t, version))
		})
	}
}
