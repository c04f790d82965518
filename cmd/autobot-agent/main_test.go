package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/internal/redistest"
)

// call runs a command line in this process.
func call(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// quiet is a configuration under which no agent runs.
func quiet(t *testing.T, more ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.yaml")
	text := "http: {listen: \"off\"}\nstate_dir: s\n" + strings.Join(more, "\n")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMistakesAreAnsweredInOneSentence(t *testing.T) {
	t.Parallel()
	good := quiet(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	for _, tt := range []struct {
		name string
		args []string
		code int
		want []string // parts of stderr
	}{
		{"an unknown command", []string{"statis"}, 2, []string{`unknown command "statis"`, "did you mean status?"}},
		{"an unknown subcommand", []string{"config", "chek"}, 2, []string{`unknown command "chek"`, "check"}},
		{"commands of later times do not exist", []string{"pair", "open"}, 2, []string{`unknown command "pair"`}},
		{"help on nothing", []string{"help", "nosuch"}, 2, []string{`no command "nosuch"`}},
		{"an unknown flag", []string{"status", "--verbos"}, 2, []string{"unknown flag: --verbos", "status --help"}},
		{"an argument too many", []string{"status", "x"}, 2, []string{`takes no arguments, got "x"`}},
		{"an unknown output", []string{"version", "-o", "xml"}, 2, []string{"--output must be table, json, yaml", `"xml"`}},
		{"a setting without value", []string{"config", "check", "--set", "redis.url"}, 2, []string{"--set takes key=value"}},
		{"a shell that is not known", []string{"completion", "tcsh"}, 2, []string{"bash, zsh and fish"}},
		{"a file that is not there", []string{"run", "--config", "/nowhere/agent.yaml"}, 78, []string{"/nowhere/agent.yaml"}},
		{"a key that is not known", []string{"run", "--config", quiet(t, "wroker: {id: a}")}, 78, []string{"agent.yaml:3", "wroker", "worker"}},
		{"a value that cannot be", []string{"run", "--config", good, "--profile", "slow"}, 78, []string{"worker.profile", "seed or fast"}},
		{"several faults at once", []string{"config", "check", "--config", quiet(t, "worker: {fence: no, order: no}")}, 78, []string{"worker.fence", "worker.order"}},
		{"a taken port", []string{"run", "--config", good, "--http-listen", taken.Addr().String()}, 75, []string{"another program uses the port"}},
		{"no agent to ask", []string{"status", "--config", good}, 69, []string{"no agent runs on this machine", "systemctl start autobot-agent"}},
		{"no agent to list executors", []string{"executors", "list", "--config", good}, 69, []string{"executors verify"}},
		{"no agent to drain", []string{"drain", "--config", good}, 69, []string{"no agent runs"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := call(tt.args...)
			if code != tt.code || stdout != "" {
				t.Errorf("code %d, want %d; stdout %q", code, tt.code, stdout)
			}
			for _, want := range tt.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("%q is not in: %s", want, stderr)
				}
			}
			if !strings.HasPrefix(stderr, "autobot-agent: ") || strings.Contains(stderr, "goroutine ") {
				t.Errorf("not a sentence: %s", stderr)
			}
		})
	}
}

// Scripts tell a Redis that is away from all that waiting does not mend.
func TestTheDoctorsExitCode(t *testing.T) {
	t.Parallel()
	locked := redistest.Start(t, redistest.WithPassword("hush"))
	for _, tt := range []struct {
		name, url string
		code      int
	}{
		{"nothing listens", "redis://127.0.0.1:1", 69},
		{"a wrong password", "redis://" + locked.Addr(), 1},
		{"no address", "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := quiet(t)
			args := []string{"doctor", "--config", path, "--set", "executors.dirs=" + t.TempDir()}
			if tt.url != "" {
				args = append(args, "--redis-url", tt.url)
			}
			if code, stdout, stderr := call(args...); code != tt.code || !strings.Contains(stdout, "redis") {
				t.Errorf("code %d, want %d\n%s%s", code, tt.code, stdout, stderr)
			}
		})
	}
}

func TestReadCommandsSpeakJSONAndYAML(t *testing.T) {
	t.Parallel()
	path := quiet(t, "redis: {url: \"redis://:hush@localhost:6379\"}")
	for _, args := range [][]string{{"version"}, {"config", "check", "--config", path}, {"config", "show", "--config", path}} {
		code, stdout, stderr := call(append(args, "-o", "json")...)
		if code != 0 || !json.Valid([]byte(stdout)) {
			t.Errorf("%v: code %d, %q %s", args, code, stdout, stderr)
		}
		if strings.Contains(stdout, "hush") {
			t.Errorf("%v shows a secret: %s", args, stdout)
		}
		if code, stdout, _ := call(append(args, "--output=yaml")...); code != 0 || json.Valid([]byte(stdout)) || !strings.Contains(stdout, ":") {
			t.Errorf("%v: code %d, %q", args, code, stdout)
		}
	}
}

func TestConfigShowNamesTheSource(t *testing.T) {
	t.Parallel()
	path := quiet(t, "worker: {profile: fast}")
	code, stdout, stderr := call("config", "show", "--config", path, "--max-concurrent", "9")
	if code != 0 {
		t.Fatalf("code %d: %s", code, stderr)
	}
	for _, want := range [][]string{
		{"worker.profile", "fast", path + ":3"}, {"worker.max_concurrent", "9", "flag"},
		{"worker.heartbeat_interval", "1s"}, {"limits.memory_percent", "95", "default"},
	} {
		found := false
		for line := range strings.Lines(stdout) {
			match := strings.HasPrefix(line, want[0]+" ")
			for _, part := range want[1:] {
				match = match && strings.Contains(line, part)
			}
			found = found || match
		}
		if !found {
			t.Errorf("no line with %v in:\n%s", want, stdout)
		}
	}
}

func TestVariablesSetFlagsAndKeys(t *testing.T) {
	t.Setenv("AUTOBOT_CONFIG", quiet(t))
	t.Setenv("AUTOBOT_OUTPUT", "json")
	t.Setenv("AUTOBOT_WORKER_ID", "from-env")
	code, stdout, stderr := call("config", "show")
	if code != 0 || !json.Valid([]byte(stdout)) || !strings.Contains(stdout, "from-env") || !strings.Contains(stdout, "env AUTOBOT_WORKER_ID") {
		t.Errorf("code %d, %s %s", code, stdout, stderr)
	}
	t.Setenv("AUTOBOT_OUTPUT", "xml")
	if code, _, stderr := call("config", "show"); code != 2 || !strings.Contains(stderr, "xml") {
		t.Errorf("code %d, %s", code, stderr)
	}
}

func TestManualPagesAndCompletionAreWhole(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man")
	if code, _, stderr := call("man", dir); code != 0 {
		t.Fatalf("code %d: %s", code, stderr)
	}
	for _, page := range []string{"autobot-agent.1", "autobot-agent-run.1", "autobot-agent-executors-verify.1", "autobot-agent-config-show.1"} {
		if info, err := os.Stat(filepath.Join(dir, page)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", page, err)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if code, stdout, _ := call("completion", shell); code != 0 || !strings.Contains(stdout, "autobot-agent") {
			t.Errorf("%s: code %d", shell, code)
		}
	}
}
