package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// line is one line of the table.
type line struct {
	figure string // what, and under which conditions; unique
	ours   string
	peers  map[string]string // by the peer's name
	goal   string            // with the verdict; "" where there is none
}

// table collects the lines of all rows.
type table struct{ lines []line }

func (t *table) add(l line) { t.lines = append(t.lines, l) }

// compare adds a line with the ratios to the peers. The goal, if any, is for
// the ratio to asynq: at least goal, in any case bar.
func (t *table) compare(figure, unit string, ours series, peers map[string]series, goal, bar float64) {
	l := line{figure: figure, ours: ours.text(unit), peers: map[string]string{}}
	for name, theirs := range peers {
		l.peers[name] = theirs.text(unit) + "; ratio " + ours.over(theirs).text("")
		if goal > 0 && name == asynqSide.name {
			l.goal = atLeast(ours.over(theirs).median(), goal, bar, " x asynq")
		}
	}
	t.add(l)
}

// The marks between which the table stands in the document.
const (
	markBegin = "<!-- queue figures, written by: make bench BENCHFLAGS=--write -->"
	markEnd   = "<!-- end of queue figures -->"
)

// rows are the lines as Markdown. A peer's column is there if the peer was
// measured.
func (t *table) rows() []string {
	var columns []string
	for _, name := range peerNames() {
		if slices.ContainsFunc(t.lines, func(l line) bool { return l.peers[name] != "" }) {
			columns = append(columns, name)
		}
	}
	out := []string{markdown("figure", "measured", columns, "goal"), strings.Repeat("|---", len(columns)+3) + "|"}
	for _, l := range t.lines {
		var cells []string
		for _, name := range columns {
			cells = append(cells, l.peers[name])
		}
		out = append(out, markdown(l.figure, l.ours, cells, l.goal))
	}
	return out
}

func markdown(figure, ours string, peers []string, goal string) string {
	return "| " + strings.Join(slices.Concat([]string{figure, ours}, peers, []string{goal}), " | ") + " |"
}

func (t *table) String() string { return strings.Join(t.rows(), "\n") + "\n" }

// writeTo puts the table into the document. When it is not whole, it replaces
// the lines that have the same figure and adds those that are not there.
func (t *table) writeTo(path string, whole bool) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(raw), markBegin+"\n")
	old, after, ends := strings.Cut(rest, markEnd)
	if !begins || !ends {
		return fmt.Errorf("%s has no place for the figures: it needs the lines %q and %q", path, markBegin, markEnd)
	}
	merged := table{lines: t.lines}
	if !whole {
		merged.lines = t.over(parse(old))
	}
	return os.WriteFile(path, []byte(before+markBegin+"\n"+merged.String()+markEnd+after), 0o644)
}

// over returns the lines of an older table, renewed where there are new ones,
// and then those that are new.
func (t *table) over(old []line) []line {
	fresh := map[string]line{}
	for _, l := range t.lines {
		fresh[l.figure] = l
	}
	var out []line
	for _, l := range old {
		if now, ok := fresh[l.figure]; ok {
			l = now
			delete(fresh, l.figure)
		}
		out = append(out, l)
	}
	for _, l := range t.lines {
		if _, ok := fresh[l.figure]; ok {
			out = append(out, l)
		}
	}
	return out
}

// parse reads what rows has written.
func parse(text string) []line {
	var out []line
	var columns []string
	for row := range strings.Lines(text) {
		row = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(row), "| "), " |")
		cells := strings.Split(row, " | ")
		if len(cells) < 3 {
			continue
		}
		peers := cells[2 : len(cells)-1]
		if columns == nil {
			columns = peers
			if columns == nil {
				columns = []string{}
			}
			continue
		}
		if len(peers) != len(columns) {
			continue
		}
		l := line{figure: cells[0], ours: cells[1], goal: cells[len(cells)-1], peers: map[string]string{}}
		for i, name := range columns {
			l.peers[name] = peers[i]
		}
		maps.DeleteFunc(l.peers, func(_, cell string) bool { return cell == "" })
		out = append(out, l)
	}
	return out
}
