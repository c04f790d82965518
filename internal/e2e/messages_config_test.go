package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/internal/e2e"
)

// badConfigs are files that people write, the code that every command of both
// programs ends with, and what it says: one part per problem.
var badConfigs = []struct {
	name, text string
	want       []string // parts of the message; the number of problems is that of the parts
}{
	{"an unknown key", "redis:\n  url: redis://127.0.0.1:1\n  urll: x\n", []string{":3:3: redis.urll: unknown key; the nearest known key is redis.url"}},
	{"an unknown section", "redis:\n  url: redis://127.0.0.1:1\nstatedir: /x\n", []string{":3:1: statedir: unknown key; the nearest known key is state_dir"}},
	{"a value of the wrong type", "redis:\n  url: redis://127.0.0.1:1\n  pool_size: many\n", []string{`:3:14: redis.pool_size: must be a whole number, not "many"`}},
	{"a duration that is none", "redis:\n  url: redis://127.0.0.1:1\n  timeout: soon\n", []string{`:3:12: redis.timeout: must be a duration such as 500ms, 15s, 24h or 7d, not "soon"`}},
	{"a value where a section belongs", "redis: redis://127.0.0.1:1\n", []string{":1:8: redis: must be a section with keys below it (url, "}},
	{"an address of another kind", "redis:\n  url: http://127.0.0.1:1\n", []string{":2:3: redis.url: must start with redis://, rediss://, unix://"}},
	{"several problems at once", "redis:\n  url: redis://127.0.0.1:1\n  pool_sizes: 3\nlog:\n  level: loud\n  format: 7\n", []string{
		":3:3: redis.pool_sizes: unknown key; the nearest known key is redis.pool_size",
		`:5:3: log.level: unknown log level "loud" (use one of debug, info, warn, error)`,
		`:6:3: log.format: unknown log format "7" (use one of auto, console, json)`,
	}},
	{"a key given twice", "redis:\n  url: redis://127.0.0.1:1\nredis:\n  url: redis://127.0.0.1:2\n", []string{":3:1: redis: is given twice, first on line 1; remove one"}},
	{"a list that does not end", "redis: [\n", []string{":1:8: is no valid YAML: "}},
	{"a tab", "redis:\n\turl: x\n", []string{":2:1: is no valid YAML: a tab stands where the indentation must be spaces"}},
	{"a text", "hello\n", []string{":1:1: must hold lines of the form key: value"}},
	{"a list", "- a\n", []string{":1:1: must hold lines of the form key: value"}},
	{"bytes", "\xff\xfe\x00", []string{":1:1: is not UTF-8 text"}},
	{"a password file that is not there", "redis:\n  url: redis://127.0.0.1:1\n  password_file: nosuch\n", []string{"redis.password_file: read the secret in "}},
	{"a password file that is empty", "redis:\n  url: redis://127.0.0.1:1\n  password_file: empty\n", []string{"empty: the file is empty"}},
	{"certificates that are not there", "redis:\n  url: rediss://127.0.0.1:1\n  tls:\n    ca_file: nosuch\n", []string{"redis.tls: read the certificates for Redis (tls.ca_file): "}},
	{"certificates that are none", "redis:\n  url: rediss://127.0.0.1:1\n  tls:\n    ca_file: empty\n", []string{"holds no certificate in PEM form"}},
}

func TestBadConfigurationIsTold(t *testing.T) {
	t.Parallel()
	dir := e2e.ShortDir(t)
	write := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("empty", "\n", 0o600)
	programs := map[string]struct{ path, service string }{
		"agent": {e2e.AgentProgram(t), "run"}, "control": {e2e.ControlProgram(t), "serve"},
	}
	for _, tt := range badConfigs {
		path := write("bad.yaml", tt.text, 0o600)
		for name, p := range programs {
			for _, command := range [][]string{{"config", "check"}, {p.service}} {
				what := tt.name + ", " + name + " " + strings.Join(command, " ")
				r := e2e.Command(t, []string{"AUTOBOT_STATE_DIR=" + filepath.Join(dir, name)}, p.path, append(command, "--config", path)...)
				if r.Code != 78 || r.Stdout != "" {
					t.Errorf("%s: code %d, want 78\n%s%s", what, r.Code, r.Stdout, r.Stderr)
				}
				lines := strings.Split(strings.TrimSpace(r.Stderr), "\n")
				if len(tt.want) > 1 {
					lines = lines[1:] // the heading
				}
				if len(lines) != len(tt.want) {
					t.Errorf("%s: %d problems, want %d:\n%s", what, len(lines), len(tt.want), r.Stderr)
				}
				for _, part := range tt.want {
					if !strings.Contains(r.Stderr, part) {
						t.Errorf("%s: it does not say %q:\n%s", what, part, r.Stderr)
					}
				}
				noInsides(t, what, r.Stderr)
			}
		}
	}

	for name, p := range programs {
		for what, path := range map[string]string{
			"the file does not exist":    filepath.Join(dir, "nosuch.yaml"),
			"it is a folder, not a file": dir,
		} {
			r := e2e.Command(t, nil, p.path, "config", "check", "--config", path)
			if want := "autobot-" + name + ": configuration: " + path + ": " + what + "\n"; r.Code != 78 || r.Stderr != want {
				t.Errorf("%s %s: code %d, %q, want %q", name, path, r.Code, r.Stderr, want)
			}
		}
		fine := write("fine.yaml", "redis:\n  url: redis://127.0.0.1:1\n", 0o600)
		for variable, want := range map[string]string{
			"AUTOBOT_REDIS_POOL_SIZE=many":           `env AUTOBOT_REDIS_POOL_SIZE: redis.pool_size: must be a whole number, not "many"`,
			"AUTOBOT_LOG_LEVEL=loud":                 `env AUTOBOT_LOG_LEVEL: log.level: unknown log level "loud"`,
			"AUTOBOT_REDIS_PASSWORD_FILE=/no/such/x": "redis.password_file: read the secret in /no/such/x: the file does not exist",
		} {
			r := e2e.Command(t, []string{variable}, p.path, "config", "check", "--config", fine)
			if r.Code != 78 || !strings.Contains(r.Stderr, want) {
				t.Errorf("%s %s: code %d, %q, want %q", name, variable, r.Code, r.Stderr, want)
			}
			clearSentence(t, name+" "+variable, r.Stderr)
		}
		// Secrets that everybody may read are a warning, and never shown.
		for text, want := range map[string]string{
			"redis:\n  url: redis://127.0.0.1:1\n  password: hunter2\n":     ":3: redis.password is a secret in a file that every user may read (repair: chmod 600 ",
			"redis:\n  url: redis://user:hunter2@127.0.0.1:1\n":             ":2: redis.url is a secret in a file that every user may read (repair: chmod 600 ",
			"redis:\n  url: redis://127.0.0.1:1\n  password_file: secret\n": "the secret in " + write("secret", "hunter2\n", 0o644) + " may be read by every user (repair: chmod 600 ",
		} {
			path := write("open.yaml", text, 0o644)
			for _, command := range []string{"check", "show"} {
				r := e2e.Command(t, nil, p.path, "config", command, "--config", path)
				if r.Code != 0 || strings.Contains(r.Stdout+r.Stderr, "hunter2") {
					t.Errorf("%s config %s: code %d, %s%s", name, command, r.Code, r.Stdout, r.Stderr)
				}
				if command == "check" {
					clearSentence(t, name+" config check", r.Stderr)
					if !strings.Contains(r.Stderr, want) {
						t.Errorf("%s config check: %q, want %q", name, r.Stderr, want)
					}
				}
			}
		}
	}
}
