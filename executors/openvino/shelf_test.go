package openvino

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/onnxtest"
	"github.com/autobot-fleet/autobot/executors/openvino/ov/ovtest"
)

// envAlone names the test that this process was started for.
const envAlone = "AUTOBOT_TEST_ALONE"

// alone runs the calling test in a process of its own, because a process has
// one runtime. It returns true there, and false where the test is over.
func alone(t *testing.T, env ...string) bool {
	t.Helper()
	if os.Getenv(envAlone) == t.Name() {
		return true
	}
	runTests(t, "^"+regexp.QuoteMeta(t.Name())+"$", append(env, envAlone+"="+t.Name())...)
	return false
}

// runTests runs tests of this package in another process.
func runTests(t *testing.T, pattern string, env ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run="+pattern, "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("in a process of its own: %v\n%s", err, out)
	}
}

// addModel puts a model on a shelf, with a card of what is given.
func addModel(t testing.TB, shelf string, card engines.Card, files map[string][]byte) {
	t.Helper()
	dir := filepath.Join(shelf, card.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	card.Format, card.Files = "onnx", nil
	if card.Model == "" {
		card.Model = "model.onnx"
	}
	for name, content := range files {
		sum := sha256.Sum256(content)
		card.Files = append(card.Files, engines.File{Name: name, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(content))})
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := card.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, engines.CardFile), raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// vocabulary has a number for each word of the tests' texts.
var vocabulary = []byte("[PAD]\n[UNK]\n[CLS]\n[SEP]\nhello\nworld\nagain\nboom\n")

// textCard describes a model of texts with one number a token.
func textCard(name string) engines.Card {
	return engines.Card{
		Name: name, Task: engines.TaskEmbed, Pooling: "mean", Dim: 1, MaxTokens: 256,
		Tokenizer: &engines.Tokenizer{Kind: "wordpiece", Vocab: "vocab.txt"},
	}
}

// reciprocal is a model of texts: each token's number is 1/(id-7), infinite for
// the word boom. It has input_ids only.
func reciprocal(rows, tokens int64) []byte {
	m := onnxtest.New("reciprocal")
	m.Input("input_ids", onnxtest.Int64, rows, tokens)
	m.Output("y", onnxtest.Float, rows, tokens, 1)
	m.Floats("seven", []int64{1}, 7)
	m.Int64s("last", []int64{1}, 2)
	m.Node("Cast", []string{"input_ids"}, []string{"f"}, onnxtest.Int("to", 1))
	m.Node("Sub", []string{"f", "seven"}, []string{"d"})
	m.Node("Reciprocal", []string{"d"}, []string{"r"})
	m.Node("Unsqueeze", []string{"r", "last"}, []string{"y"})
	return m.Bytes()
}

// meanOf is what reciprocal makes of tokens with [CLS] and [SEP] around.
func meanOf(ids ...float64) float64 {
	sum := 1/(2.-7) + 1/(3.-7)
	for _, id := range ids {
		sum += 1 / (id - 7)
	}
	return sum / float64(len(ids)+2)
}

// on returns an executor with the models of a shelf on the runtime that all
// tests share.
func on(t testing.TB, shelf string, change func(*Settings)) *Executor {
	t.Helper()
	host := real(t)
	s := host.settings
	if change != nil {
		change(&s)
	}
	layout := host.layout
	layout.ModelsDir = shelf
	e, err := NewAt(s, layout, "")
	if err != nil {
		t.Fatal(err)
	}
	e.rt, e.models = host.rt, newModels(host.rt, s, "")
	t.Cleanup(func() {
		e.models.close()
		e.rt = nil // it is not ours
	})
	return e
}

// machine is an executor on a double of the library.
type machine struct {
	*Executor
	double *ovtest.Double
	shelf  string
	cache  string
}

// doubled returns an executor on a double of the library. Only in a process of
// its own.
func doubled(t *testing.T, o ovtest.DoubleOptions, change func(*Settings)) *machine {
	t.Helper()
	m := &machine{double: ovtest.NewDouble(t, o), cache: filepath.Join(t.TempDir(), "compiled")}
	root := t.TempDir()
	layout := engines.At(filepath.Join(root, "engines"))
	m.shelf = layout.ModelsDir
	if err := os.MkdirAll(filepath.Join(layout.EnginesDir, "openvino"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(m.double.Dir, filepath.Join(layout.EnginesDir, "openvino", "2026.4.1")); err != nil {
		t.Fatal(err)
	}
	s := DefaultSettings()
	if change != nil {
		change(&s)
	}
	var err error
	if m.Executor, err = NewAt(s, layout, m.cache); err != nil {
		t.Fatal(err)
	}
	if _, err := m.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	addModel(t, m.shelf, engines.Card{
		Name: "plus-one", Task: engines.TaskInfer, Inputs: []engines.Port{{Name: "x", Type: "f32", Shape: []int64{1, 4}}},
	}, map[string][]byte{"model.onnx": []byte("in x f32 1,4\nout y f32 1,4\n")})
	text := textCard("texts")
	text.StaticShapes = []int{64, 128, 256}
	text.Inputs = []engines.Port{{Name: "input_ids", Type: "i64", Shape: []int64{-1, -1}}, {Name: "attention_mask", Type: "i64", Shape: []int64{-1, -1}}}
	addModel(t, m.shelf, text, map[string][]byte{
		"model.onnx": []byte("in input_ids i64 ?,?\nin attention_mask i64 ?,?\nout y f32 ?,?,1\n"), "vocab.txt": vocabulary,
	})
	return m
}

// do runs a task that has to succeed.
func do(t testing.TB, e *Executor, typ string, payload, out any) ran {
	t.Helper()
	r := run(t.Context(), t, e, typ, payload, nil)
	if r.err != nil {
		t.Fatalf("%v: %v", payload, r.err)
	}
	if out != nil {
		if err := json.Unmarshal(r.result.Output, out); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// fails runs a task that has to fail with code, and a message or hint with
// every part.
func fails(t testing.TB, e *Executor, typ string, payload any, code executors.Code, parts ...string) *executors.Error {
	t.Helper()
	r := run(t.Context(), t, e, typ, payload, nil)
	if r.err == nil || r.err.Code != code {
		t.Fatalf("%v: %v, want %s", payload, r.err, code)
	}
	for _, part := range parts {
		if !strings.Contains(r.err.Error(), part) {
			t.Errorf("%v: %q does not say %q", payload, r.err, part)
		}
	}
	return r.err
}

// warned returns the codes and texts of warnings.
func (r ran) warned(code string) string {
	var texts []string
	for _, w := range r.result.Warnings {
		if w.Code == code {
			texts = append(texts, w.Message)
		}
	}
	return strings.Join(texts, "; ")
}

// wantOf finds a model by its name.
func wantOf(t testing.TB, e *Executor, name, device string) want {
	t.Helper()
	w, err := e.find(target{Model: name, Device: device}, "", "")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// take acquires a model.
func take(t testing.TB, e *Executor, name string) *lease {
	t.Helper()
	l, err := e.models.acquire(t.Context(), wantOf(t, e, name, "CPU"), func(executors.Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	return l
}
