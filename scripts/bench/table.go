package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// line is one line of the table.
type line struct {
	figure string // what, and under which conditions; unique
	ours   string
	peer   string // "" where there is none
	ratio  string
	goal   string // with the verdict; "" where there is none
}

func (l line) String() string {
	return "| " + strings.Join([]string{l.figure, l.ours, l.peer, l.ratio, l.goal}, " | ") + " |"
}

// table collects the lines of all rows.
type table struct{ lines []line }

func (t *table) add(l line) { t.lines = append(t.lines, l) }

// The marks between which the table stands in the document.
const (
	markBegin = "<!-- queue figures, written by make bench -->"
	markEnd   = "<!-- end of queue figures -->"
)

var tableHead = []string{"| figure | measured | peer | ratio | goal |", "|---|---|---|---|---|"}

func (t *table) String() string {
	out := slices.Clone(tableHead)
	for _, l := range t.lines {
		out = append(out, l.String())
	}
	return strings.Join(out, "\n") + "\n"
}

// writeTo replaces the lines of the document that have the same figure, and
// adds those that it does not have.
func (t *table) writeTo(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(raw), markBegin+"\n")
	old, after, ok2 := strings.Cut(rest, markEnd)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no place for the figures: it needs the lines %q and %q", path, markBegin, markEnd)
	}
	merged := t.merge(strings.Split(strings.TrimSpace(old), "\n"))
	text := before + markBegin + "\n" + strings.Join(merged, "\n") + "\n" + markEnd + after
	return os.WriteFile(path, []byte(text), 0o644)
}

// merge returns the table with the lines of an older one that it lacks, in the
// older one's order.
func (t *table) merge(old []string) []string {
	fresh := map[string]string{}
	for _, l := range t.lines {
		fresh[key(l.String())] = l.String()
	}
	out := slices.Clone(tableHead)
	for _, text := range old {
		if !strings.HasPrefix(text, "| ") || text == tableHead[0] {
			continue
		}
		if now, ok := fresh[key(text)]; ok {
			text = now
			delete(fresh, key(text))
		}
		out = append(out, text)
	}
	for _, l := range t.lines {
		if text, ok := fresh[key(l.String())]; ok {
			out = append(out, text)
		}
	}
	return out
}

// key is what tells a line from the others: its figure and its peer's name.
func key(text string) string {
	cells := strings.Split(text, " | ")
	if len(cells) < 3 {
		return text
	}
	peer, _, _ := strings.Cut(strings.TrimSpace(cells[2]), ":")
	return cells[0] + "|" + peer
}

// atLeast and atMost are goals with their verdict. bar is the weaker limit
// that has to hold in any case, 0 for none.
func atLeast(v, goal, bar float64, unit string) string {
	return verdict("at least", v >= goal, v >= bar, goal, bar, unit)
}
func atMost(v, goal, bar float64, unit string) string {
	return verdict("at most", v <= goal, bar == 0 || v <= bar, goal, bar, unit)
}

func verdict(word string, reached, passed bool, goal, bar float64, unit string) string {
	text := fmt.Sprintf("%s %s%s", word, number(goal), unit)
	if goal == float64(int(goal)) {
		text = fmt.Sprintf("%s %d%s", word, int(goal), unit)
	}
	switch {
	case reached:
		return text
	case bar != 0 && passed:
		return text + ", **missed** (within " + number(bar) + unit + ")"
	}
	return text + ", **missed**"
}
