package cli

import (
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"golang.org/x/term"
)

// Width returns the width of w in columns if it is a terminal.
func Width(w io.Writer) (width int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	return width, err == nil && width >= 40
}

// Printable drops what would move the cursor or start a new row.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return ' '
		case r < ' ', r == 0x7f, r >= 0x80 && r < 0xa0:
			return -1
		}
		return r
	}, s)
}

// Cut returns s in at most n columns, with a mark where something is missing.
func Cut(s string, n int) string {
	if lipgloss.Width(s) <= n {
		return s
	}
	out := []rune(s)
	for len(out) > 0 && lipgloss.Width(string(out)) > n-1 {
		out = out[:len(out)-1]
	}
	return string(out) + "…"
}

// Wrap breaks text into lines of at most width columns at blanks; the second
// and later lines start with indent.
func Wrap(text string, width int, indent string) string {
	if lipgloss.Width(text) <= width {
		return text
	}
	body := strings.TrimLeft(text, " ")
	words := strings.Split(body, " ")
	line := text[:len(text)-len(body)] + words[0]
	var out []string
	for _, word := range words[1:] {
		if lipgloss.Width(line+" "+word) > width {
			out = append(out, line)
			line = indent + word
		} else {
			line += " " + word
		}
	}
	return strings.Join(append(out, line), "\n")
}
