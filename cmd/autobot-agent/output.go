package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"
	"github.com/goccy/go-yaml"
	"golang.org/x/term"
)

// outputs are the values of --output.
var outputs = []string{"table", "json", "yaml"}

// print writes v as JSON or YAML, or calls people to write it for people.
func (a *app) print(v any, people func(w io.Writer) error) error {
	if a.output == "table" {
		return people(a.stdout)
	}
	doc, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	if a.output == "yaml" {
		if doc, err = yaml.JSONToYAML(doc); err != nil {
			return fmt.Errorf("print the answer: %w", err)
		}
	}
	_, err = fmt.Fprintln(a.stdout, strings.TrimRight(string(doc), "\n"))
	return err
}

// printTable writes rows under headers: with borders on a terminal, else in
// plain columns that scripts can cut.
func printTable(w io.Writer, headers []string, rows [][]string) error {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = printable(cell)
		}
	}
	if width, ok := terminal(w); ok {
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
	return plainColumns(w, append([][]string{headers}, rows...))
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

// terminal returns the width of w if it is a terminal.
func terminal(w io.Writer) (width int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	return width, err == nil && width >= 40
}

// printable drops what would move the cursor or start a new row.
func printable(s string) string {
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
