package exec

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/autobot-fleet/autobot/executors"
)

func TestParseProgress(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]*executors.Progress{
		"progress: 40 half way":  {Percent: 40, Stage: "run", Message: "half way"},
		"progress: 40":           {Percent: 40, Stage: "run"},
		"progress:7.9%  loading": {Percent: 7, Stage: "run", Message: "loading"},
		"progress: 100":          {Percent: 100, Stage: "run"},
		"progress: 101":          nil,
		"progress: -1":           nil,
		"progress: NaN":          nil,
		"progress: half":         nil,
		"progress:":              nil,
		" progress: 40":          nil,
		"in progress: 40":        nil,
	} {
		got, ok := parseProgress(line)
		if ok != (want != nil) || want != nil && got != *want {
			t.Errorf("%q: %+v, %v; want %+v", line, got, ok, want)
		}
	}
}

func TestParseArtifact(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"artifact: a.wav audio/wav":                 "a.wav|audio|audio/wav",
		"artifact: a.csv text/csv; charset=utf-8":   "a.csv|document|text/csv; charset=utf-8",
		"artifact: a.bin":                           "a.bin|download|application/octet-stream",
		"artifact: ../a audio/wav":                  "",
		"artifact: .. audio/wav":                    "",
		"artifact: a/b audio/wav":                   "",
		"artifact: a audio":                         "",
		"artifact:":                                 "",
		"artifact: " + strings.Repeat("a", 101):     "",
		"artifact: page.pdf   application/pdf":      "page.pdf|document|application/pdf",
		"this artifact: a.wav audio/wav is not one": "",
	} {
		got, ok := parseArtifact(line)
		text := ""
		if ok {
			text = got.Name + "|" + got.Kind + "|" + got.MediaType
		}
		if text != want {
			t.Errorf("%q: %q, want %q", line, text, want)
		}
	}
}

func FuzzLines(f *testing.F) {
	for _, seed := range []string{"progress: 40 x\n", "artifact: a b/c\nlast", "\n\n\r\n", "progress: 1e309\n", "\xff\xfe\n", "artifact: a b/c; d=\"\n"} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		var lines []string
		w := &lineWriter{emit: func(s string) { lines = append(lines, s) }}
		cut = min(max(cut, 0), len(text))
		for _, part := range [][]byte{text[:cut], text[cut:]} {
			if n, err := w.Write(part); n != len(part) || err != nil {
				t.Fatalf("write = %d, %v", n, err)
			}
		}
		w.flush()
		for _, line := range lines {
			if !utf8.ValidString(line) || strings.Contains(line, "\n") || len(line) > 4*maxLine {
				t.Fatalf("line %.100q of %d bytes", line, len(line))
			}
			if p, ok := parseProgress(line); ok && (p.Percent < 0 || p.Percent > 100) {
				t.Fatalf("%q: %+v", line, p)
			}
			if a, ok := parseArtifact(line); ok && (filepath.Base(a.Name) != a.Name || a.MediaType == "" || a.Kind == "") {
				t.Fatalf("%q: %+v", line, a)
			}
		}
	})
}

func TestLongLinesAreCut(t *testing.T) {
	t.Parallel()
	var lines []string
	w := &lineWriter{emit: func(s string) { lines = append(lines, s) }}
	for range 1000 {
		_, _ = w.Write([]byte(strings.Repeat("x", 1000)))
	}
	_, _ = w.Write([]byte("\nnext\n"))
	if len(lines) != 2 || len(lines[0]) > maxLine+20 || !strings.HasSuffix(lines[0], "[cut]") || lines[1] != "next" {
		t.Errorf("%d lines, the first with %d bytes", len(lines), len(lines[0]))
	}
}

func write(t *testing.T, dir, name string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestScanTakesOnlyWhatIsSafe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "good.sh", 0o700)
	write(t, dir, "also.good.py", 0o555)
	write(t, dir, "open_to_all.sh", 0o777)
	write(t, dir, "open_to_group.sh", 0o770)
	write(t, dir, "plain.sh", 0o600)
	write(t, dir, "Upper.sh", 0o700)
	write(t, dir, "processing.sh", 0o700)
	write(t, dir, "twice.sh", 0o700)
	write(t, dir, "twice.py", 0o700)
	for _, ignored := range []string{".hidden", "edited.sh~", "new.sh.tmp", "a.sh.dpkg-new"} {
		write(t, dir, ignored, 0o700)
	}
	if err := os.Symlink("good.sh", filepath.Join(dir, "link.sh")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	scripts, problems, err := scan(dir)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, s := range scripts {
		types = append(types, s.typ)
	}
	if want := []string{"also.good", "good"}; !slices.Equal(types, want) {
		t.Errorf("types = %v, want %v", types, want)
	}
	all := strings.Join(problems, "\n")
	for _, want := range []string{
		"open_to_all.sh can be written by others", "chmod go-w", "open_to_group.sh can be", "plain.sh is not executable",
		`"Upper" cannot be a task type`, `"processing" cannot`, `type "twice" is claimed by`, "link.sh is not a regular file",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in the problems:\n%s", want, all)
		}
	}
	if len(problems) != 7 {
		t.Errorf("%d problems:\n%s", len(problems), all)
	}
}

func TestFolderThatOthersCanChangeIsRefused(t *testing.T) {
	t.Parallel()
	outer := t.TempDir()
	inner := filepath.Join(outer, "inner")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, inner, "a.sh", 0o700)
	if _, _, err := scan(inner); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{inner, outer} {
		if err := os.Chmod(folder, 0o777); err != nil { // #nosec G302 -- what is tested
			t.Fatal(err)
		}
		if _, _, err := scan(inner); err == nil || !strings.Contains(err.Error(), folder+" can be written by others") {
			t.Errorf("with %s open to all: %v", folder, err)
		}
		if err := os.Chmod(folder, 0o700); err != nil { // #nosec G302 -- a folder
			t.Fatal(err)
		}
	}
}

func TestNotReadySaysWhy(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ dir, want string }{
		"no folder is set": {"", "executors.exec.dir is not set"},
		"it is missing":    {"/nowhere/scripts", "no such file"},
		"it is empty":      {t.TempDir(), "there is no script"},
	} {
		s := Defaults()
		s.Dir = tt.dir
		e, err := New("1", s)
		if err != nil {
			t.Fatal(err)
		}
		d, err := e.Describe(context.Background())
		if err != nil || d.Ready || d.Check() != nil || !strings.Contains(strings.Join(d.Reasons, ""), tt.want) {
			t.Errorf("%s: %+v, %v, %v", name, d, err, d.Check())
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Settings)
		want   string
	}{
		{"defaults", func(*Settings) {}, ""},
		{"relative folder", func(s *Settings) { s.Dir = "scripts" }, "dir:"},
		{"no concurrency", func(s *Settings) { s.Concurrency = 0 }, "concurrency:"},
		{"no timeout", func(s *Settings) { s.Timeout = 0 }, "timeout:"},
		{"grace longer than the agent's", func(s *Settings) { s.Grace = 5 * time.Second }, "grace:"},
		{"bad variable", func(s *Settings) { s.Env = map[string]string{"A B": ""} }, "script_env.A B"},
		{"our own variable", func(s *Settings) { s.Env = map[string]string{"AUTOBOT_TASK_ID": ""} }, "script_env.AUTOBOT_TASK_ID"},
	} {
		s := Defaults()
		tt.change(&s)
		if _, err := New("1", s); (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
