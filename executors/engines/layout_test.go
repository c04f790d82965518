package engines

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
)

// put writes a file of a layout and the folders above it.
func put(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func TestTheAgentSaysWhereEnginesAre(t *testing.T) {
	t.Setenv(executors.EnvEngines, "/srv/autobot/engines/")
	if l := Locate(); l.EnginesDir != "/srv/autobot/engines" || l.ModelsDir != "/srv/autobot/models" || l.DataDir != "/srv/autobot/data" {
		t.Errorf("got %+v", l)
	}
}

func TestWithoutAnAgentEnginesAreInTheCache(t *testing.T) {
	before := systemDir
	t.Cleanup(func() { systemDir = before })
	systemDir = filepath.Join(t.TempDir(), "engines")
	t.Setenv(executors.EnvEngines, "relative/is/ignored")
	t.Setenv("XDG_CACHE_HOME", "/var/tmp/cache")
	if l := Locate(); l.EnginesDir != "/var/tmp/cache/autobot/engines" {
		t.Errorf("got %+v", l)
	}
	t.Setenv("XDG_CACHE_HOME", "relative/is/ignored")
	t.Setenv("HOME", "/home/somebody")
	if l := Locate(); l.ModelsDir != "/home/somebody/.cache/autobot/models" {
		t.Errorf("got %+v", l)
	}
	t.Setenv("HOME", "")
	if l := Locate(); !strings.HasPrefix(l.EnginesDir, os.TempDir()) {
		t.Errorf("without a home: %+v", l)
	}
	if err := os.Mkdir(systemDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if l := Locate(); l.EnginesDir != systemDir {
		t.Errorf("the machine's own come first: %+v", l)
	}
}

func TestTheHighestVersionWithALibraryIsTaken(t *testing.T) {
	t.Parallel()
	l := At(filepath.Join(t.TempDir(), "engines"))
	for _, v := range []string{"2025.4.1", "2026.10.0", "2026.4.1"} {
		put(t, filepath.Join(l.EnginesDir, "openvino", v, "libopenvino_c.so."+v), "x", 0o644)
	}
	put(t, filepath.Join(l.EnginesDir, "openvino", "2027.1", "README"), "no library", 0o644)
	put(t, filepath.Join(l.EnginesDir, "openvino", ".new-123", "libopenvino_c.so.1"), "half an installation", 0o644)
	dir, version, err := l.OpenVINO()
	if err != nil || version != "2026.10.0" || dir != filepath.Join(l.EnginesDir, "openvino", "2026.10.0") {
		t.Errorf("got %s %s %v", dir, version, err)
	}
}

func TestVersionsAreComparedByTheirNumbers(t *testing.T) {
	t.Parallel()
	rising := []string{"1.rc", "1.0", "1.0.1", "1.9", "1.10", "2", "2024.6.0", "2026.4.1"}
	for i, a := range rising {
		for j, b := range rising {
			if got := CompareVersions(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s and %s: %d", a, b, got)
			}
		}
	}
}

func TestWhatIsMissingNamesTheLineThatInstallsIt(t *testing.T) {
	t.Parallel()
	l := At(filepath.Join(t.TempDir(), "engines"))
	_, _, ov := l.OpenVINO()
	_, pw := l.Playwright(t.Context(), PlaywrightSettings{})
	_, node := l.InstalledNode()
	_, data := l.DataSet("sample-pictures")
	for err, want := range map[error]string{
		ov: "autobot-agent engines install openvino", pw: "autobot-agent engines install playwright",
		node: "autobot-agent engines install node", data: "autobot-agent engines install sample-pictures",
	} {
		var missing *MissingError
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), want) || missing.Repair != want {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func TestThePlaywrightDriverComesWithNodeAndBrowser(t *testing.T) {
	t.Parallel()
	l := At(filepath.Join(t.TempDir(), "engines"))
	put(t, filepath.Join(l.EnginesDir, "playwright", "1.64.1", "package", "cli.js"), "", 0o644)
	node, old, odd := filepath.Join(l.EnginesDir, "n22"), filepath.Join(l.EnginesDir, "n18"), filepath.Join(l.EnginesDir, "odd")
	put(t, node, "#!/bin/sh\necho v22.1.0\n", 0o755)
	put(t, old, "#!/bin/sh\necho v18.19.0\n", 0o755)
	put(t, odd, "#!/bin/sh\necho hello\n", 0o755)
	browser := filepath.Join(l.EnginesDir, "shell")
	put(t, browser, "", 0o755)
	got, err := l.Playwright(t.Context(), PlaywrightSettings{Node: node, Browser: browser})
	want := Playwright{Dir: filepath.Join(l.EnginesDir, "playwright", "1.64.1"), Node: node, Browser: browser, Version: "1.64.1"}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, tt := range []struct {
		settings PlaywrightSettings
		want     string
	}{
		{PlaywrightSettings{Node: old, Browser: browser}, "is node 18, the Playwright driver needs 20"},
		{PlaywrightSettings{Node: odd, Browser: browser}, "which is no version"},
		{PlaywrightSettings{Node: node + "x", Browser: browser}, "ask "},
		{PlaywrightSettings{Node: node, Browser: browser + "x"}, InstallPlaywright},
	} {
		if _, err := l.Playwright(t.Context(), tt.settings); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.settings, err, tt.want)
		}
	}
}

func TestTheInstalledNodeStandsInForAnOldOne(t *testing.T) {
	l := At(filepath.Join(t.TempDir(), "engines"))
	bin := t.TempDir()
	put(t, filepath.Join(bin, "node"), "#!/bin/sh\necho v18.19.0\n", 0o755)
	t.Setenv("PATH", bin)
	if node, err := l.node(t.Context(), ""); err == nil {
		t.Errorf("node 18 was taken: %s", node)
	}
	own := filepath.Join(l.EnginesDir, "node", "24.19.0", "bin", "node")
	put(t, own, "", 0o755)
	if node, err := l.node(t.Context(), ""); err != nil || node != own {
		t.Errorf("got %s, %v", node, err)
	}
	put(t, filepath.Join(bin, "node"), "#!/bin/sh\necho v20.0.0\n", 0o755)
	if node, err := l.node(t.Context(), ""); err != nil || node != filepath.Join(bin, "node") {
		t.Errorf("got %s, %v", node, err)
	}
}

func TestANodeThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	hanging := filepath.Join(t.TempDir(), "node")
	put(t, hanging, "#!/bin/sh\nexec sleep 600\n", 0o755)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NodeVersion(ctx, hanging); err == nil {
		t.Error("an answer from somebody who does not answer")
	}
}
