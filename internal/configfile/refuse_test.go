package configfile

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"broken syntax", "name: [a\n", ":1:7: is no valid YAML: "},
		{"no mapping", "- a\n", "must hold lines of the form key: value"},
		{"two documents", "name: a\n---\nname: b\n", ":3:5: holds a second document"},
		{"not UTF-8", "name: a\nname2: \xff\n", ":2:8: is not UTF-8 text"},
		{"NUL", "name: a\x00\n", "is not UTF-8 text"},
		{"an anchor", "name: &a b\n", "anchors and aliases"},
		{"an alias", "name: *a\n", "anchors and aliases"},
		{"a tag", "name: !!str b\n", "tags (!) are not supported"},
		{"a merge key", "<<: {name: b}\n", "this form of key is not supported"},
		{"a complex key", "? [a]\n: b\n", ":2:1: is no valid YAML: found an invalid key"},
		{"too deep", "name: " + strings.Repeat("[", 100) + strings.Repeat("]", 100), "nested more than 32 deep"},
		{"very deep", "name:\n  " + strings.Repeat("- ", 400000) + "a\n", "nested more than 32 deep"},
		{"huge", "# " + strings.Repeat("x", 1<<20) + "\n", "the file is too large (more than 1024 KiB)"},
		{"a tab", "worker:\n\tport: 1\n", ":2:1: is no valid YAML: a tab "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := writeConfig(t, tt.text, nil)
			_, err := Load(Options{Path: path}, defaults())
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestMissingAndUnreadableFiles(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "no.yaml")
	_, err := Load(Options{Path: missing}, defaults())
	if want := "configuration: " + missing + ": the file does not exist"; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if _, err := Load(Options{Path: missing, Optional: true}, defaults()); err != nil {
		t.Errorf("an optional file: %v", err)
	}
	if _, err := Load(Options{Path: filepath.Dir(missing)}, defaults()); err == nil || !strings.Contains(err.Error(), "it is a folder") {
		t.Errorf("a folder: %v", err)
	}
}

func TestFilesWithoutContentChangeNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# only a comment\n", "---\n", "\xef\xbb\xbf", "name:\nworker:\nexecutors:\n", "~\n"} {
		c, _ := mustLoad(t, Options{Path: writeConfig(t, text, nil)})
		if diff := cmp.Diff(defaults(), c, cmp.AllowUnexported()); diff != "" {
			t.Errorf("%q changed %s", text, diff)
		}
	}
}

func TestTargetsThatCannotBeLoaded(t *testing.T) {
	t.Parallel()
	for _, target := range []any{
		nil, testConfig{}, (*testConfig)(nil), new(int),
		&struct{ C chan int }{}, &struct{ A *workerConfig }{},
		&struct {
			A int `yaml:"x"`
			B int `yaml:"x"`
		}{},
		&struct {
			A map[string]any `yaml:",remain"`
		}{},
	} {
		_, err := Load(Options{}, target)
		var e *Error
		if err == nil || errors.As(err, &e) {
			t.Errorf("%T: got %v, want a plain error", target, err)
		}
	}
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"name: a\n", "redis: {url: x, databases: {main: 1}}\n", "targets: [{url: a}]\n", "executors: {tts: {a: [1, {b: c}]}}\n",
		"worker:\n  port: 1\n  port: 2\n", "a: &x [*x]\n", "? a\n: b\n", "---\n...\n---\n", "name: |\n  x\n", "{", "[", "- - - a\n", "<<: *a\n", "\t", "name: \"\\",
		"interval: 1e400", "quota: 9e99TiB", "!!map {a: b}", "%YAML 1.2\n---\na: b\n", "name: >-\n\n  a\n b", "a: 'b", "- ? -\n", "{a: b, ? c}", "[a, [b: c]]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := newLoader(Options{}, defaults())
		if err != nil {
			t.Fatal(err)
		}
		l.applyText("f.yaml", text)
		l.validate()
		for _, p := range l.problems {
			if p.Message == "" || !strings.HasPrefix(p.Source, "f.yaml") {
				t.Errorf("a problem without message or place: %+v", p)
			}
		}
		l.Entries()
	})
}
