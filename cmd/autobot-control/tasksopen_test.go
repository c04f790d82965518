package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/client"
)

func TestFirstFileIsOpenedOrSaysWhyNot(t *testing.T) {
	bin := t.TempDir()
	note := filepath.Join(bin, "note")
	opener := func(t *testing.T, code string) {
		t.Helper()
		script := "#!/bin/sh\nprintf %s \"$1\" >" + note + "\nexit " + code + "\n"
		if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	saved := []client.Saved{{Path: "/out/objects.png"}, {Path: "/out/second.png"}}
	for _, tt := range []struct {
		name, display, path, code string
		saved                     []client.Saved
		want, opened              string
	}{
		{"with a display", ":0", bin, "0", saved, "opened /out/objects.png", "/out/objects.png"},
		{"without a display", "", bin, "0", saved, "there is no display (DISPLAY and WAYLAND_DISPLAY are not set). The file: /out/objects.png", ""},
		{"without the program", ":0", t.TempDir(), "0", saved, "apt-get install xdg-utils). The file: /out/objects.png", ""},
		{"without a viewer", ":0", bin, "3", saved, "found no program for it", "/out/objects.png"},
		{"without a file", ":0", bin, "0", nil, "the task left no file", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("DISPLAY", tt.display)
			t.Setenv("WAYLAND_DISPLAY", "")
			t.Setenv("PATH", tt.path)
			_ = os.Remove(note)
			opener(t, tt.code)
			var out bytes.Buffer
			env := &environment{}
			env.Stderr = &out
			(&saving{dir: "/out", open: true}).show(env, tt.saved)
			if !strings.Contains(out.String(), tt.want) {
				t.Errorf("want %q, got %q", tt.want, out.String())
			}
			if got, _ := os.ReadFile(note); string(got) != tt.opened {
				t.Errorf("opened %q, want %q", got, tt.opened)
			}
		})
	}
}
