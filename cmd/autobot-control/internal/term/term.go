// Package term writes for people: tables that fit the terminal, and plain
// columns where there is none.
package term

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"
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

// Table writes rows under headers: with borders on a terminal, else in plain
// columns that scripts can cut.
func Table(w io.Writer, headers []string, rows [][]string) error {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = Printable(cell)
		}
	}
	width, ok := Width(w)
	if !ok {
		return plainColumns(w, append([][]string{headers}, rows...))
	}
	t := table.New().Headers(headers...).Rows(rows...).
		Border(lipgloss.RoundedBorder()).
		StyleFunc(func(row, _ int) lipgloss.Style {
			style := lipgloss.NewStyle().Padding(0, 1)
			if row == table.HeaderRow {
				return style.Bold(true)
			}
			return style
		})
	if lipgloss.Width(t.Render()) > width {
		t = t.Width(width)
	}
	_, err := fmt.Fprintln(w, t.Render())
	return err
}

// plainColumns pads each column to its widest cell.
func plainColumns(w io.Writer, rows [][]string) error {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], lipgloss.Width(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-lipgloss.Width(cell)+2))
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
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
