package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"
)

// Table writes rows under headers: on a terminal with borders if they fit, and
// never wider than it; elsewhere in plain columns that scripts can cut. Columns
// without content are left out on a terminal.
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
	headers, rows = withoutEmpty(headers, rows)
	_, err := fmt.Fprintln(w, render(headers, rows, width))
	return err
}

// render draws a table that is at most width columns wide.
func render(headers []string, rows [][]string, width int) string {
	bordered := table.New().Headers(headers...).Rows(rows...).Border(lipgloss.RoundedBorder()).StyleFunc(style(1)).Render()
	if lipgloss.Width(bordered) <= width {
		return bordered
	}
	fit(headers, rows, width)
	return table.New().Headers(headers...).Rows(rows...).Border(lipgloss.HiddenBorder()).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderHeader(false).
		StyleFunc(style(0)).Render()
}

// style pads cells and makes the header bold.
func style(padding int) table.StyleFunc {
	return func(row, _ int) lipgloss.Style {
		s := lipgloss.NewStyle().Padding(0, padding)
		if row == table.HeaderRow {
			return s.Bold(true)
		}
		return s
	}
}

// withoutEmpty drops columns in which no row has anything. The first stays.
func withoutEmpty(headers []string, rows [][]string) ([]string, [][]string) {
	var keep []int
	for i := range headers {
		if i == 0 || slices.ContainsFunc(rows, func(row []string) bool { return row[i] != "" }) {
			keep = append(keep, i)
		}
	}
	pick := func(row []string) []string {
		out := make([]string, 0, len(keep))
		for _, i := range keep {
			out = append(out, row[i])
		}
		return out
	}
	out := make([][]string, 0, len(rows))
	for _, row := range rows {
		out = append(out, pick(row))
	}
	return pick(headers), out
}

// fit cuts cells until the columns, one blank between them, are at most width
// wide: the last columns first, which hold notes, and the first at the very
// end: it holds the names that people copy.
func fit(headers []string, rows [][]string, width int) {
	const least = 6
	all := append([][]string{headers}, rows...)
	widths := make([]int, len(headers))
	total := len(headers) - 1
	for i := range headers {
		for _, row := range all {
			widths[i] = max(widths[i], lipgloss.Width(row[i]))
		}
		total += widths[i]
	}
	for i := len(headers) - 1; i >= 0 && total > width; i-- {
		to := max(min(least, widths[i]), widths[i]-(total-width))
		total -= widths[i] - to
		for _, row := range all {
			row[i] = Cut(row[i], to)
		}
	}
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
