package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/charmbracelet/lipgloss"
)

func TestTablesNeverExceedTheTerminal(t *testing.T) {
	t.Parallel()
	headers := []string{"TASK", "TYPE", "EMPTY", "NOTE"}
	rows := [][]string{
		{"2050c3ab-be52-4441-aaa8-a7fadb86b8f9", "general", "", "a note that is rather long and can be cut"},
		{"x1", "tts", "", "日本語のメモ"},
	}
	for _, width := range []int{40, 45, 60, 80, 200} {
		h, r := withoutEmpty(headers, rows)
		out := render(h, r, width)
		if got := lipgloss.Width(out); got > width {
			t.Errorf("%d columns wide on a terminal of %d:\n%s", got, width, out)
		}
		if strings.Contains(out, "EMPTY") {
			t.Errorf("an empty column is shown:\n%s", out)
		}
		if width >= 60 && !strings.Contains(out, rows[0][0]) {
			t.Errorf("the id cannot be copied at width %d:\n%s", width, out)
		}
	}
}

func TestPlainColumnsCanBeCut(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := Table(&out, []string{"A", "B", "C"}, [][]string{{"1", "", "x\ny"}, {"long one", "2", "\x1b[31mz"}}); err != nil {
		t.Fatal(err)
	}
	want := "A         B  C\n1            x y\nlong one  2  [31mz\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestWrapKeepsIndentation(t *testing.T) {
	t.Parallel()
	got := Wrap("  not ready   tts: espeak-ng not found", 20, "      ")
	want := "  not ready   tts:\n      espeak-ng not\n      found"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		n    int
		want string
	}{{"short", 5, "short"}, {"longer", 5, "long…"}, {"日本語", 4, "日…"}} {
		if got := Cut(tt.text, tt.n); got != tt.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", tt.text, tt.n, got, tt.want)
		}
	}
}
