package engines

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
)

// addModel puts a model with one file into a layout.
func addModel(t *testing.T, l Layout, name string) (dir string) {
	t.Helper()
	const content = "weights"
	sum := sha256.Sum256([]byte(content))
	c := Card{
		Name: name, Format: FormatONNX, Task: TaskInfer, Model: "model.onnx",
		Files: []File{{"model.onnx", hex.EncodeToString(sum[:]), int64(len(content))}},
	}
	raw, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(l.ModelsDir, name)
	put(t, filepath.Join(dir, CardFile), string(raw), 0o644)
	put(t, filepath.Join(dir, "model.onnx"), content, 0o644)
	return dir
}

func TestAModelIsItsCardAndItsFiles(t *testing.T) {
	t.Parallel()
	l := At(filepath.Join(t.TempDir(), "engines"))
	dir := addModel(t, l, "net")
	put(t, filepath.Join(l.ModelsDir, ".new-1", CardFile), "{}", 0o644)
	put(t, filepath.Join(l.ModelsDir, "empty", "x"), "", 0o644)
	c, got, err := l.Model("net")
	if err != nil || got != dir || c.Task != TaskInfer || c.SHA256() != c.Files[0].SHA256 {
		t.Fatalf("got %+v in %s, %v", c, got, err)
	}
	if names, err := l.Models(); err != nil || len(names) != 1 || names[0] != "net" {
		t.Errorf("got %v, %v", names, err)
	}
	if err := c.Verify(dir); err != nil {
		t.Error(err)
	}
	put(t, filepath.Join(dir, "model.onnx"), "WEIGHTS", 0o644)
	if err := c.Verify(dir); err == nil || !strings.Contains(err.Error(), "not the one that its card describes") {
		t.Errorf("other weights of the same length: %v", err)
	}
	put(t, filepath.Join(dir, "model.onnx"), "short", 0o644)
	if _, _, err := l.Model("net"); err == nil || !strings.Contains(err.Error(), "has 5 bytes, its card says 7") {
		t.Errorf("a file that was cut: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "model.onnx")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Model("net"); err == nil || !strings.Contains(err.Error(), "add the model again") {
		t.Errorf("a file that is gone: %v", err)
	}
}

func TestACardInTheWrongFolderIsRefused(t *testing.T) {
	t.Parallel()
	l := At(filepath.Join(t.TempDir(), "engines"))
	if err := os.Rename(addModel(t, l, "net"), filepath.Join(l.ModelsDir, "other")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Model("other"); err == nil || !strings.Contains(err.Error(), "name:") {
		t.Errorf("got %v", err)
	}
	put(t, filepath.Join(l.ModelsDir, "other", CardFile), `{"nam":1}`, 0o644)
	if _, _, err := l.Model("other"); err == nil || !strings.Contains(err.Error(), "did you mean name?") {
		t.Errorf("got %v", err)
	}
}

func TestAnUnknownModelNamesTheNearestAndHowToAddIt(t *testing.T) {
	t.Parallel()
	l := At(filepath.Join(t.TempDir(), "engines"))
	_, _, err := l.Model("yolov8")
	if !executors.IsCode(err, executors.CodeNotFound) || !strings.Contains(err.Error(), "autobot-agent engines install all") {
		t.Errorf("without models: %v", err)
	}
	addModel(t, l, "yolo-v8n")
	addModel(t, l, "magika")
	_, _, err = l.Model("yolov8")
	for _, want := range []string{"did you mean yolo-v8n?", "autobot-agent models add FILE --name yolov8 --task TASK"} {
		if !executors.IsCode(err, executors.CodeNotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	addModel(t, l, "magikas-long-cousin")
	if _, _, err = l.ModelFor("cousin", TaskEmbed); err == nil || !strings.Contains(err.Error(), "did you mean magikas-long-cousin? Or: autobot-agent models add FILE --name cousin --task embed") {
		t.Errorf("a part of a name: %v", err)
	}
	if _, _, err := l.Model("zzzzzz"); err == nil || !strings.Contains(err.Error(), "there are magika, magikas-long-cousin, yolo-v8n") {
		t.Errorf("nothing near: %v", err)
	}
	for _, name := range []string{"", "../net", "Net", ".", "..", strings.Repeat("a", 65)} {
		if _, _, err := l.Model(name); !executors.IsCode(err, executors.CodeInvalidInput) {
			t.Errorf("%q: got %v", name, err)
		}
	}
}
