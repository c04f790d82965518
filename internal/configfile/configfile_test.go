package configfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autobot-fleet/autobot/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

type testConfig struct {
	Name     string        `yaml:"name"`
	Interval time.Duration `yaml:"interval"`
	Quota    Size          `yaml:"quota"`
	StateDir string        `yaml:"state_dir" path:"true"`

	Redis struct {
		URL          string         `yaml:"url" secret:"url"`
		Password     string         `yaml:"password" secret:"true"`
		PasswordFile string         `yaml:"password_file" path:"true"`
		Databases    map[string]int `yaml:"databases"`
	} `yaml:"redis"`

	Worker workerConfig `yaml:"worker"`

	Executors struct {
		Dirs  []string                  `yaml:"dirs" path:"true"`
		Trust string                    `yaml:"trust"`
		Rest  map[string]map[string]any `yaml:",remain"`
	} `yaml:"executors"`

	Auth struct {
		Key string `yaml:"key" secret:"true"`
	} `yaml:"auth"`

	Targets []struct {
		URL  string            `yaml:"url"`
		Tags map[string]string `yaml:"tags"`
	} `yaml:"targets"`
}

type workerConfig struct {
	MaxConcurrent int     `yaml:"max_concurrent"`
	Share         float64 `yaml:"share"`
	Drain         bool    `yaml:"drain"`
	Port          uint16  `yaml:"port"`
	Spare         *int    `yaml:"spare"`
}

func (w *workerConfig) Validate() []Problem {
	if w.MaxConcurrent < 1 {
		return []Problem{{Key: "max_concurrent", Message: "must be at least 1"}}
	}
	return nil
}

func defaults() *testConfig {
	c := &testConfig{Name: "unnamed", Interval: 15 * time.Second, Quota: 1 << 20}
	c.Worker.MaxConcurrent = 2
	return c
}

// writeConfig writes main and drop-in files and returns the path of the former.
func writeConfig(t *testing.T, text string, dropIns map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "agent.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(DropInDir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range dropIns {
		if err := os.WriteFile(filepath.Join(DropInDir(path), name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func mustLoad(t *testing.T, o Options) (*testConfig, *Loaded) {
	t.Helper()
	c := defaults()
	if o.Environ == nil {
		o.Environ = []string{}
	}
	o.EnvPrefix = "AUTOBOT"
	l, err := Load(o, c)
	if err != nil {
		t.Fatal(err)
	}
	return c, l
}

func sources(l *Loaded) map[string]string {
	out := map[string]string{}
	for _, e := range l.Entries() {
		out[e.Key] = e.Source
	}
	return out
}

func values(l *Loaded) map[string]string {
	out := map[string]string{}
	for _, e := range l.Entries() {
		out[e.Key] = e.Value
	}
	return out
}

func TestLayersWinInOrderAndAreRemembered(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, `
name: main
interval: 20s
redis:
  url: redis://u:geheim@h:1/0
  databases: {main: 0, cache: 5}
worker:
  max_concurrent: 3
  share: 0.5
  spare: 7
`, map[string]string{
		"10-a.yaml":  "name: a\nworker: {share: 0.25}\n",
		"20-b.yaml":  "name: b\n",
		".hide.yaml": "nonsense: true\n",
		"note.txt":   "nonsense: true\n",
	})
	c, l := mustLoad(t, Options{
		Path:      path,
		Environ:   []string{"AUTOBOT_WORKER_DRAIN=yes", "AUTOBOT_REDIS_DATABASES=main=1", "AUTOBOT_INTERVAL="},
		Overrides: map[string]string{"worker.port": "8080"},
	})
	if c.Name != "b" || c.Interval != 20*time.Second || c.Worker.Share != 0.25 || c.Worker.MaxConcurrent != 3 ||
		!c.Worker.Drain || c.Worker.Port != 8080 || *c.Worker.Spare != 7 {
		t.Errorf("loaded %+v", c)
	}
	if diff := cmp.Diff(map[string]int{"main": 1}, c.Redis.Databases); diff != "" {
		t.Errorf("databases: %s", diff)
	}
	got := sources(l)
	for key, want := range map[string]string{
		"name":                  filepath.Join(DropInDir(path), "20-b.yaml") + ":1",
		"interval":              path + ":3",
		"worker.share":          filepath.Join(DropInDir(path), "10-a.yaml") + ":2",
		"worker.max_concurrent": path + ":8",
		"worker.drain":          "env AUTOBOT_WORKER_DRAIN",
		"redis.databases":       "env AUTOBOT_REDIS_DATABASES",
		"worker.port":           "flag",
		"quota":                 "default",
		"auth.key":              "default",
	} {
		if got[key] != want {
			t.Errorf("source of %s: %q, want %q", key, got[key], want)
		}
	}
	if v := values(l); v["quota"] != "1MiB" || v["interval"] != "20s" || v["redis.url"] != "redis://u:***@h:1/0" ||
		v["redis.databases"] != "{main: 1}" || v["worker.spare"] != "7" {
		t.Errorf("values %v", v)
	}
	if len(l.Files()) != 3 {
		t.Errorf("files %v", l.Files())
	}
}

func TestEveryProblemIsReportedWithItsPlace(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, `name: [a, b]
interval: soon
nmae: x
max_concurrent: 4
redis:
  url: a
  url: b
  databases: 7
worker:
  max_concurent: 8
  max_concurrent: 0
  port: 70000
  drain: perhaps
executors:
  dirs: /one
  trust: {a: b}
  tts: 7
targets:
  - url: x
    tgas: {a: b}
`, nil)
	_, err := Load(Options{Path: path, EnvPrefix: "AUTOBOT", Environ: []string{"AUTOBOT_WORKER_SHARE=half"},
		Overrides: map[string]string{"worker.prot": "1"}}, defaults())
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v, want an *Error", err)
	}
	want := `configuration has 16 problems:
  F:7:3: url: is given twice, first on line 6; remove one
  F:1:7: name: must be a single value, not a list or section
  F:2:11: interval: must be a duration such as 500ms, 15s, 24h or 7d, not "soon"
  F:3:1: nmae: unknown key; the nearest known key is name
  F:4:1: max_concurrent: unknown key; the nearest known key is worker.max_concurrent
  F:8:14: redis.databases: must be a section of name: value
  F:10:3: worker.max_concurent: unknown key; the nearest known key is worker.max_concurrent
  F:12:9: worker.port: must be a whole number from zero up of a sensible size, not 70000
  F:13:10: worker.drain: must be true or false, not "perhaps"
  F:15:9: executors.dirs: must be a list, for example [a, b] or one "- a" per line
  F:16:11: executors.trust: must be a single value, not a list or section
  F:17:3: executors.tts: unknown key
  F:20:5: targets[0].tgas: unknown key; the nearest known key is targets[0].tags
  env AUTOBOT_WORKER_SHARE: worker.share: must be a number, not "half"
  flag: worker.prot: unknown key; the nearest known key is worker.port
  F:11:3: worker.max_concurrent: must be at least 1`
	got := strings.ReplaceAll(err.Error(), path, "F")
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Error(diff)
	}
}

func TestValidateGetsThePlace(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, "worker:\n  max_concurrent: 0\n", nil)
	_, err := Load(Options{Path: path}, defaults())
	want := "configuration: " + path + ":2:3: worker.max_concurrent: must be at least 1"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestUnknownSectionsAreKept(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, `
executors:
  trust: owner
  tts: {voice: en, rate: 1.5, loud: true, "n": "1", api_key: geheim}
  my-exec:
    dir: x
`, map[string]string{"a.yaml": "executors: {tts: {voice: de, nested: {a: [1]}}}"})
	c, l := mustLoad(t, Options{
		Path:      path,
		Environ:   []string{"AUTOBOT_EXECUTORS_MY_EXEC_FILE_NAME=f", "AUTOBOT_EXECUTORS_GENERAL_LIMIT=7", "AUTOBOT_EXECUTORS_DIR=x"},
		Overrides: map[string]string{"executors.tts.nested.b": "true"},
	})
	want := map[string]map[string]any{
		"tts": {
			"voice": "de", "rate": 1.5, "loud": true, "n": "1", "api_key": "geheim",
			"nested": map[string]any{"a": []any{int64(1)}, "b": true},
		},
		"my-exec": {"dir": "x", "file_name": "f"},
		"general": {"limit": int64(7)},
	}
	if diff := cmp.Diff(want, c.Executors.Rest); diff != "" {
		t.Error(diff)
	}
	if v := values(l); v["executors.tts.api_key"] != "***" || v["executors.tts.nested"] != "{a: [1], b: true}" {
		t.Errorf("values %v", v)
	}
	if s := sources(l); s["executors.my-exec.file_name"] != "env AUTOBOT_EXECUTORS_MY_EXEC_FILE_NAME" || s["executors.tts.rate"] != path+":4" {
		t.Errorf("sources %v", s)
	}
	if w := l.Warnings(); len(w) != 1 || w[0] != "the variable AUTOBOT_EXECUTORS_DIR is not known; did you mean AUTOBOT_EXECUTORS_DIRS?" {
		t.Errorf("warnings %q", w)
	}
}

func TestPathsResolveAgainstTheFile(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, "state_dir: state\nexecutors: {dirs: [one, /two]}\n", map[string]string{"a.yaml": "redis: {password_file: pw}"})
	c, _ := mustLoad(t, Options{Path: path, Environ: []string{}})
	dir := filepath.Dir(path)
	if c.StateDir != filepath.Join(dir, "state") || c.Redis.PasswordFile != filepath.Join(DropInDir(path), "pw") {
		t.Errorf("paths %q, %q", c.StateDir, c.Redis.PasswordFile)
	}
	if diff := cmp.Diff([]string{filepath.Join(dir, "one"), "/two"}, c.Executors.Dirs); diff != "" {
		t.Error(diff)
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	c, _ = mustLoad(t, Options{Overrides: map[string]string{"state_dir": "here"}})
	if c.StateDir != filepath.Join(wd, "here") {
		t.Errorf("a path from a flag is %q, want it in %q", c.StateDir, wd)
	}
	if _, err := Load(Options{Overrides: map[string]string{"state_dir": "~/x"}}, defaults()); err == nil || !strings.Contains(err.Error(), "not expanded") {
		t.Errorf("a path with ~: %v", err)
	}
}

func TestSecretsAreMaskedEverywhere(t *testing.T) {
	t.Parallel()
	const secret = "geheim"
	path := writeConfig(t, "redis: {password: geheim, url: 'redis://:geheim@h'}\nauth: {key: [geheim]}\n", nil)
	_, err := Load(Options{Path: path}, defaults())
	if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "auth.key: has a value of the wrong kind") {
		t.Errorf("error %v", err)
	}
	path = writeConfig(t, "auth: {key: geheim\n", nil) // syntax error on the line of the secret
	if _, err := Load(Options{Path: path}, defaults()); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("error %v", err)
	}
	path = writeConfig(t, "redis: {password: geheim, url: 'redis://:geheim@h'}\nauth: {key: geheim}\n", nil)
	if err := os.Chmod(path, 0o604); err != nil {
		t.Fatal(err)
	}
	c, l := mustLoad(t, Options{Path: path})
	if c.Auth.Key != secret {
		t.Errorf("key %q", c.Auth.Key)
	}
	for _, e := range l.Entries() {
		if strings.Contains(e.Value, secret) {
			t.Errorf("%s shows %q", e.Key, e.Value)
		}
	}
	if w := l.Warnings(); len(w) != 3 || !strings.Contains(w[0], "redis.url is a secret in a file that every user may read (repair: chmod 600 "+path) {
		t.Errorf("warnings %q", w)
	}
}

func TestSecretFromAFileNamedByAVariable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("geheim\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, l := mustLoad(t, Options{Environ: []string{"AUTOBOT_AUTH_KEY_FILE=" + file, "AUTOBOT_REDIS_PASSWORD_FILE=/pw"}})
	if c.Auth.Key != "geheim" || sources(l)["auth.key"] != "env AUTOBOT_AUTH_KEY_FILE" {
		t.Errorf("key %q from %q", c.Auth.Key, sources(l)["auth.key"])
	}
	if c.Redis.PasswordFile != "/pw" || c.Redis.Password != "" {
		t.Errorf("a key of its own lost its variable: %+v", c.Redis)
	}
	for _, tt := range []struct {
		environ []string
		want    string
	}{
		{[]string{"AUTOBOT_AUTH_KEY_FILE=/does/not/exist"}, "read the secret in /does/not/exist: the file does not exist"},
		{[]string{"AUTOBOT_AUTH_KEY_FILE=" + file, "AUTOBOT_AUTH_KEY=x"}, "both AUTOBOT_AUTH_KEY and AUTOBOT_AUTH_KEY_FILE are set"},
	} {
		if _, err := Load(Options{EnvPrefix: "AUTOBOT", Environ: tt.environ}, defaults()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: got %v, want %q", tt.environ, err, tt.want)
		}
	}
}

func TestTextKeepsWhatWasWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"name: 0123": "0123", "name: 1.10": "1.10", "name: yes": "yes", "name: true": "true", "name: 'a # b'": "a # b",
		"name: |\n  two\n  lines\n": "two\nlines\n", "name: \"\\u00e4\"": "ä", "name: a:b": "a:b", "name: 1_000": "1_000",
	} {
		c, _ := mustLoad(t, Options{Path: writeConfig(t, text, nil)})
		if c.Name != want {
			t.Errorf("%q: got %q, want %q", text, c.Name, want)
		}
	}
}

func TestListsOfSections(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, "targets:\n- url: a\n- url: b\n  tags: {x: y}\n", nil)
	c, l := mustLoad(t, Options{Path: path})
	if len(c.Targets) != 2 || c.Targets[1].Tags["x"] != "y" {
		t.Errorf("targets %+v", c.Targets)
	}
	if s := sources(l); s["targets[0].url"] != path+":2" || s["targets[1].tags"] != path+":4" {
		t.Errorf("sources %v", s)
	}
	c, _ = mustLoad(t, Options{Path: path, Environ: []string{`AUTOBOT_TARGETS=[{url: c}]`}})
	if len(c.Targets) != 1 || c.Targets[0].URL != "c" {
		t.Errorf("targets %+v", c.Targets)
	}
}
