package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMistakesWithEnginesAreAnsweredInOneSentence(t *testing.T) {
	t.Parallel()
	path := quiet(t)
	into := filepath.Join(t.TempDir(), "engines")
	file := filepath.Join(t.TempDir(), "net.onnx")
	if err := os.WriteFile(file, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"nothing named", []string{"engines", "install"}, 2, "engines install needs a name, for example: autobot-agent engines install all"},
		{"an unknown name", []string{"engines", "install", "opnvino"}, 1, "did you mean openvino?"},
		{"an unknown version", []string{"engines", "install", "openvino@1.0"}, 1, "there is openvino@2026.4.1"},
		{"a folder that is not there", []string{"engines", "install", "all", "--from", "/nowhere"}, 2, "--from: stat /nowhere"},
		{"what is not installed", []string{"engines", "remove", "openvino"}, 1, "openvino@2026.4.1 is not installed in " + into},
		{"what is not ours to remove", []string{"engines", "remove", "espeak-ng"}, 1, "only packages of the distribution"},
		{"a bundle without a file", []string{"engines", "bundle"}, 2, "engines bundle needs the file to write"},
		{"a model without a file", []string{"models", "add", "--name", "x", "--task", "infer"}, 2, "models add needs one FILE"},
		{"a model without a name", []string{"models", "add", file}, 2, "models add needs --name and --task"},
		{"a model of a kind nobody reads", []string{"models", "add", "x.pt", "--name", "x", "--task", "infer"}, 1, ".onnx, .tflite, or .xml"},
		{"a size that is none", []string{"models", "add", file, "--name", "x", "--task", "classify", "--size", "big"}, 2, "--size must be WIDTHxHEIGHT"},
		{"a mean that is none", []string{"models", "add", file, "--name", "x", "--task", "classify", "--mean", "1,x"}, 2, "--mean must be a number"},
		{"no executor to load it", []string{"models", "add", file, "--name", "x", "--task", "infer", "--set", "executors.dirs=[/nowhere]"}, 1, "autobot-executor-openvino, which loads a model to check it, is not in /nowhere"},
		{"a model that is not there", []string{"models", "remove", "yolov8"}, 1, "there is no model \"yolov8\""},
		{"a command nobody has", []string{"engines", "instal"}, 2, "did you mean install?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"--config", path, "--set", "engines.dir=" + into}, tt.args...)
			code, stdout, stderr := call(args...)
			if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.want) || !strings.Contains(stderr, "autobot-agent: ") {
				t.Errorf("code %d, want %d, %q, stdout %q, stderr: %s", code, tt.code, tt.want, stdout, stderr)
			}
		})
	}
}

func TestWarningsArePrintedOnce(t *testing.T) {
	t.Setenv("AUTOBOT_WROKER_ID", "x")
	file := filepath.Join(t.TempDir(), "net.onnx")
	if err := os.WriteFile(file, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, stderr := call("--config", quiet(t), "models", "add", file, "--name", "x", "--task", "infer",
		"--set", "executors.dirs=[/nowhere]", "--set", "engines.dir="+filepath.Join(t.TempDir(), "engines"))
	if n := strings.Count(stderr, "AUTOBOT_WROKER_ID"); n != 1 {
		t.Errorf("told %d times: %s", n, stderr)
	}
}

func TestAFolderWithoutArchivesSaysHowToFillIt(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // where archives of this machine would be found
	code, stdout, stderr := call("--config", quiet(t), "engines", "install", "magika", "--from", t.TempDir(), "--into", filepath.Join(t.TempDir(), "engines"))
	if code != 1 || stdout != "" || !strings.Contains(stderr, "autobot-agent engines bundle FILE") {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
}

func TestEnginesListSaysWhatIsMissingAndHowToGetIt(t *testing.T) {
	t.Parallel()
	into := filepath.Join(t.TempDir(), "engines")
	code, stdout, stderr := call("--config", quiet(t), "engines", "list", "--into", into, "-o", "json")
	var rows []engineRow
	if err := json.Unmarshal([]byte(stdout), &rows); err != nil || code != 0 {
		t.Fatalf("code %d, %v, %s", code, err, stderr)
	}
	for _, r := range rows {
		switch r.Name {
		case "espeak-ng": // is the machine's
		case "openvino":
			want := "autobot-agent engines install openvino"
			if r.Version != "2026.4.1" {
				want += "@" + r.Version
			}
			if r.State != "missing" || r.Install != want {
				t.Errorf("got %+v", r)
			}
		default:
			if r.State != "missing" || r.Install != "autobot-agent engines install "+r.Name || r.Licence == "" {
				t.Errorf("got %+v", r)
			}
		}
	}
	code, stdout, _ = call("--config", quiet(t), "engines", "list", "--into", into)
	if code != 0 || !strings.Contains(stdout, `not in "all": its card says CC0`) || !strings.Contains(stdout, "playwright") {
		t.Errorf("code %d: %s", code, stdout)
	}
	code, stdout, _ = call("--config", quiet(t), "engines", "verify", "--into", into, "magika")
	if code != 1 || !strings.Contains(stdout, "(repair: autobot-agent engines install magika)") {
		t.Errorf("code %d: %s", code, stdout)
	}
	code, stdout, _ = call("--config", quiet(t), "models", "list", "--into", into)
	if code != 0 || !strings.Contains(stdout, "autobot-agent engines install all") {
		t.Errorf("code %d: %s", code, stdout)
	}
}

// What scripts/setup has installed is found, whole, and not installed again.
func TestTheEnginesOfThisMachineAreWhole(t *testing.T) {
	t.Parallel()
	path := quiet(t)
	code, stdout, stderr := call("--config", path, "engines", "verify", "openvino", "magika", "silero-vad", "playwright")
	if code != 0 || strings.Count(stdout, " ok\n") != 4 {
		t.Errorf("code %d, %s%s; scripts/setup installs what is missing", code, stdout, stderr)
	}
	code, stdout, stderr = call("--config", path, "engines", "install", "all")
	if code != 0 || stderr != "" || !strings.HasPrefix(stdout, "all: everything is installed in ") {
		t.Errorf("code %d, %s%s; scripts/setup installs what is missing", code, stdout, stderr)
	}
	code, stdout, stderr = call("--config", path, "models", "list", "-o", "json")
	if code != 0 || !strings.Contains(stdout, `"all-minilm-l6-v2"`) || strings.Contains(stdout, `"problem"`) {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
}
