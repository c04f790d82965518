// Package docs checks that the pages say what is so.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/control"
	"github.com/autobot-fleet/autobot/internal/configfile"
)

const root = ".."

// pages returns the manual, by path relative to the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, path := range append(paths, "../README.md", "../CHANGELOG.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Join("docs", path)] = string(text)
	}
	return out
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for page, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
				continue
			}
			if anchor != "" && !anchors(all[target])[anchor] {
				t.Errorf("%s links to %s, which has no such heading", page, m[1])
			}
		}
	}
}

var (
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notAnchor = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// anchors of a page, as code hosts make them from headings.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		out[strings.ReplaceAll(notAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return out
}

func TestEverySettingIsInTheManual(t *testing.T) {
	t.Parallel()
	install := pages(t)["docs/install.md"]
	empty := filepath.Join(t.TempDir(), "empty.yaml")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, ofAgent, err := agent.LoadConfig(empty, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, ofControl, err := control.LoadConfig(empty, map[string]string{"redis.url": "redis://127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	for program, entries := range map[string][]configfile.Entry{"agent": ofAgent.Entries(), "control": ofControl.Entries()} {
		for _, e := range entries {
			if !strings.Contains(install, "`"+e.Key+"`") {
				t.Errorf("docs/install.md does not name %s of the %s", e.Key, program)
			}
		}
	}
}

var testName = regexp.MustCompile("`((?:Test|Benchmark|Fuzz)[A-Z][A-Za-z0-9]+)`")

func TestTheTestsThatAreNamedExist(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		code.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for page, text := range pages(t) {
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(code.String(), "func "+m[1]+"(") {
				t.Errorf("%s names %s, which is not there", page, m[1])
			}
		}
	}
}

// Each executor of the sources has a row in the README and a section in its
// page.
func TestEveryExecutorIsInTheManual(t *testing.T) {
	t.Parallel()
	programs, err := filepath.Glob(filepath.Join(root, "executors", "*", "cmd", "autobot-executor-*"))
	if err != nil || len(programs) == 0 {
		t.Fatalf("no executors: %v", err)
	}
	all := pages(t)
	for _, program := range programs {
		name := strings.TrimPrefix(filepath.Base(program), "autobot-executor-")
		if !strings.Contains(all["README.md"], "\n| "+name+" | ") {
			t.Errorf("README.md has no row for %s", name)
		}
		if !anchors(all["docs/executors.md"])[name] {
			t.Errorf("docs/executors.md has no section %s", name)
		}
	}
}
