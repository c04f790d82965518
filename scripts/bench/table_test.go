package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWriteRenewsLinesAndKeepsTheOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "performance.md")
	write := func(x table, whole bool) string {
		t.Helper()
		if err := x.writeTo(path, whole); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if err := os.WriteFile(path, []byte("before\n"+markBegin+"\n"+markEnd+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := table{lines: []line{
		{figure: "a", ours: "1/s", peers: map[string]string{"asynq": "2/s"}, goal: "at least 3"},
		{figure: "b", ours: "4"},
	}}
	write(first, false)
	second := table{lines: []line{{figure: "c", ours: "6"}, {figure: "b", ours: "5"}}}
	got := write(second, false)
	want := "before\n" + markBegin + `
| figure | measured | asynq | goal |
|---|---|---|---|
| a | 1/s | 2/s | at least 3 |
| b | 5 |  |  |
| c | 6 |  |  |
` + markEnd + "\nafter\n"
	if got != want {
		t.Errorf("the document is\n%s\nwant\n%s", got, want)
	}
	if got := write(second, true); strings.Contains(got, "| a |") || !strings.Contains(got, "| c | 6 |") {
		t.Errorf("a whole table does not replace the old one:\n%s", got)
	}
}

func TestADocumentWithoutAPlaceIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "performance.md")
	if err := os.WriteFile(path, []byte("text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	x := table{lines: []line{{figure: "a", ours: "1"}}}
	if err := x.writeTo(path, false); err == nil || !strings.Contains(err.Error(), markBegin) {
		t.Errorf("the error is %v, it has to name the mark", err)
	}
}

func TestASeriesHasAMedianASpreadAndRatios(t *testing.T) {
	s := series{300, 100, 200}
	if got := s.text("/s"); got != "200/s (100 to 300)" {
		t.Errorf("text is %q", got)
	}
	if got := s.over(series{100, 100, 100}).text(""); got != "2.00 (1.00 to 3.00)" {
		t.Errorf("ratios are %q", got)
	}
	if got := s.percentile(99); got != 300 {
		t.Errorf("99th percentile is %v", got)
	}
}

func TestAVerdictTellsGoalAndBar(t *testing.T) {
	for want, got := range map[string]string{
		"at least 5 x": atLeast(5, 5, 3, " x"),
		"at least 5 x, **missed**; at least 3 holds": atLeast(4, 5, 3, " x"),
		"at least 5 x, **missed**":                   atLeast(2, 5, 3, " x"),
		"at most 0.3 %":                              atMost(0.3, 0.3, 1, " %"),
		"at most 0.3 %, **missed**; at most 1 holds": atMost(0.4, 0.3, 1, " %"),
		"at most 20 ms, **missed**":                  atMost(21, 20, 0, " ms"),
	} {
		if got != want {
			t.Errorf("verdict is %q, want %q", got, want)
		}
	}
}
