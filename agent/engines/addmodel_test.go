package engines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors/engines"
)

// answer is a checker that says what an engine would.
type answer struct {
	found Checked
	err   error
	seen  string // the card that the engine would load
}

func (a *answer) Check(_ context.Context, dir string) (Checked, error) {
	raw, err := os.ReadFile(filepath.Join(dir, engines.CardFile))
	a.seen = string(raw)
	return a.found, errors.Join(err, a.err)
}

var yolo = Checked{
	Engine: "an engine 1", Layout: engines.LayoutYOLO,
	Inputs:  []engines.Port{{Name: "images", Type: "f32", Shape: []int64{1, 3, 320, 640}}},
	Outputs: []engines.Port{{Name: "out", Type: "f32", Shape: []int64{1, 6, 8400}}},
}

func newModel(t *testing.T) NewModel {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "yolo.onnx"), "weights")
	write(t, filepath.Join(dir, "coco.txt"), "cat\ndog\n")
	return NewModel{File: filepath.Join(dir, "yolo.onnx"), Name: "yolov8", Task: engines.TaskDetect, Labels: filepath.Join(dir, "coco.txt")}
}

func TestAnAddedModelHasACardOfWhatTheEngineSays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := &answer{found: yolo}
	if _, err := r.AddModel(t.Context(), newModel(t), a); err != nil {
		t.Fatal(err)
	}
	if _, err := engines.ParseCard([]byte(a.seen)); err != nil {
		t.Errorf("the engine found no card that it can read: %v", err)
	}
	c, dir, err := r.Layout.Model("yolov8")
	if err != nil {
		t.Fatal(err)
	}
	p := c.Preprocess
	if c.Layout != engines.LayoutYOLO || p.Width != 640 || p.Height != 320 || p.Order != "nchw" || p.Fit != engines.FitLetterbox || len(c.Outputs) != 1 || c.Source != "added from yolo.onnx" {
		t.Errorf("got %+v, %+v", c, p)
	}
	if err := c.Verify(dir); err != nil {
		t.Error(err)
	}
	if list, err := r.Models(); err != nil || len(list) != 1 || list[0].Problem != "" || list[0].Task != "detect" {
		t.Errorf("listed %+v, %v", list, err)
	}
	if left := r.leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := r.RemoveModel(t.Context(), "yolov8"); err != nil {
		t.Fatal(err)
	}
	wantError(t, r.RemoveModel(t.Context(), "yolov8"), "there is no model")
	wantError(t, r.RemoveModel(t.Context(), "../engines"), "is not the name of a model")
}

func TestNothingIsAddedThatDoesNotPass(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		mutate func(*NewModel, *answer)
		want   string
	}{
		{"it passes", func(*NewModel, *answer) {}, ""},
		{"a layout that is given", func(m *NewModel, a *answer) { a.found.Layout, m.Layout = "", engines.LayoutYOLOEnd2End }, ""},
		{"a plain model", func(m *NewModel, _ *answer) { m.Task, m.Labels = engines.TaskInfer, "" }, ""},
		{"a name that cannot be", func(m *NewModel, _ *answer) { m.Name = "YOLO" }, "the name of a model must be"},
		{"a file of another kind", func(m *NewModel, _ *answer) { m.File += ".pt" }, ".onnx, .tflite, or .xml"},
		{"a file that is not there", func(m *NewModel, _ *answer) { m.File = "/nowhere/x.onnx" }, "/nowhere/x.onnx"},
		{"a folder", func(m *NewModel, _ *answer) { _ = os.Remove(m.File); _ = os.Mkdir(m.File, 0o755) }, "is not a regular file"},
		{"a model that does not load", func(_ *NewModel, a *answer) { a.err = errors.New("junk") }, "junk"},
		{"a task nobody does", func(m *NewModel, _ *answer) { m.Task = "dream" }, "task: must be"},
		{"a task of several parts", func(m *NewModel, _ *answer) { m.Task = engines.TaskOCR }, "several parts"},
		{"a detector without labels", func(m *NewModel, _ *answer) { m.Labels = "" }, "labels: is needed"},
		{"too many labels", func(m *NewModel, a *answer) { a.found.Outputs = yolo.Outputs; write(t, m.Labels, "a\nb\nc\n") }, "the labels are 3 and the classes of the model 2"},
		{"outputs of no known shape", func(_ *NewModel, a *answer) { a.found.Layout = "" }, "look like no detector that is known (out [1 6 8400])"},
		{"a layout nobody knows", func(m *NewModel, _ *answer) { m.Layout = "detr" }, "layout: must be"},
		{"an embedder without vocabulary", func(m *NewModel, _ *answer) { m.Task, m.Labels = engines.TaskEmbed, "" }, "tokenizer: is needed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			m, a := newModel(t), &answer{found: yolo}
			tt.mutate(&m, a)
			_, err := r.AddModel(t.Context(), m, a)
			wantError(t, err, tt.want)
			names, listing := r.Layout.Models()
			if (len(names) == 1) != (tt.want == "") || listing != nil {
				t.Errorf("models are %v, %v", names, listing)
			}
			if err == nil {
				_, again := r.AddModel(t.Context(), m, a)
				wantError(t, again, "there is a model yolov8 already")
				m.Replace = true
				_, again = r.AddModel(t.Context(), m, a)
				wantError(t, again, "")
			}
		})
	}
}

func TestAnEmbedderGetsItsDimensionFromTheModel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "m.xml"), "net")
	write(t, filepath.Join(dir, "m.bin"), "weights")
	write(t, filepath.Join(dir, "v"), "[PAD]\n")
	found := Checked{Outputs: []engines.Port{{Name: "h", Type: "f32", Shape: []int64{-1, -1, 384}}}}
	c, err := r.AddModel(t.Context(), NewModel{File: filepath.Join(dir, "m.xml"), Name: "e", Task: engines.TaskEmbed, Vocab: filepath.Join(dir, "v"), MaxTokens: 128}, &answer{found: found})
	if err != nil || c.Dim != 384 || c.MaxTokens != 128 || c.Pooling != "mean" || c.Format != engines.FormatIR {
		t.Errorf("got %+v, %v", c, err)
	}
}

// executor puts a program in the place of the openvino executor.
func executor(t *testing.T, body string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "autobot-executor-openvino"), []byte("#!/bin/sh\n"+body), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTheExecutorChecksAModelInAProcessOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, body, want string }{
		{"an answer", `[ "$1" = --check-model ] && [ -d "$2" ] && echo "{\"engine\":\"$AUTOBOT_ENGINES_DIR\",\"layout\":\"yolo\",\"outputs\":[{\"name\":\"o\",\"type\":\"f32\",\"shape\":[1,6,9]}]}"`, ""},
		{"a refusal", "echo 'the model is cut' >&2; exit 1", "the engine cannot use this model: the model is cut"},
		{"a crash", "kill -SEGV $$", "the engine cannot use this model: signal: segmentation fault"},
		{"no JSON", "echo hello", "cannot be read"},
		{"too much", "while :; do echo 0123456789012345678901234567890123456789; done", "the engine cannot use this model"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			x := ExecutorChecker{Dirs: []string{t.TempDir(), executor(t, tt.body)}, EnginesDir: "/e"}
			found, err := x.Check(t.Context(), t.TempDir())
			wantError(t, err, tt.want)
			if err == nil && (found.Engine != "/e" || found.Layout != "yolo" || fmt.Sprint(found.Outputs) != "[{o f32 [1 6 9]}]") {
				t.Errorf("got %+v", found)
			}
		})
	}
}

func TestOnlyATrustedExecutorIsRun(t *testing.T) {
	t.Parallel()
	_, err := ExecutorChecker{Dirs: []string{"/nowhere"}}.Check(t.Context(), t.TempDir())
	wantError(t, err, "autobot-executor-openvino, which loads a model to check it, is not in /nowhere")
	dir := executor(t, "echo '{}'")
	program := filepath.Join(dir, "autobot-executor-openvino")
	if err := os.Chmod(program, 0o757); err != nil {
		t.Fatal(err)
	}
	_, err = ExecutorChecker{Dirs: []string{dir}}.Check(t.Context(), t.TempDir())
	wantError(t, err, "may be written by others, so it is not run")
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Chmod(program, 0o755), os.Chown(program, 12345, 12345)); err != nil {
			t.Fatal(err)
		}
		_, err = ExecutorChecker{Dirs: []string{dir}}.Check(t.Context(), t.TempDir())
		wantError(t, err, "belongs neither to root nor to this user")
	}
}

func TestACheckEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "started")
	ctx, cancel := context.WithCancel(t.Context())
	x := ExecutorChecker{Dirs: []string{executor(t, "echo >"+fifo+"; sleep 600 & wait")}}
	ended := make(chan error, 1)
	go func() { _, err := x.Check(ctx, dir); ended <- err }()
	for {
		if _, err := os.Stat(fifo); err == nil {
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("ended by itself: %v", err)
		default:
		}
	}
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "check the model") {
		t.Errorf("got %v", err)
	}
}
