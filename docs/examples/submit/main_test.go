package main

import (
	"os"
	"strings"
	"testing"
)

// TestTheReadmeShowsThisExample keeps the excerpt in README.md as it is here.
func TestTheReadmeShowsThisExample(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, excerpt, ok := strings.Cut(string(readme), "```go\n")
	if !ok {
		t.Fatal("README.md shows no Go")
	}
	excerpt, _, _ = strings.Cut(excerpt, "```")
	var indented strings.Builder
	for line := range strings.Lines(excerpt) {
		indented.WriteString("\t" + line)
	}
	if !strings.Contains(string(code), indented.String()) {
		t.Error("the Go excerpt of README.md is not in docs/examples/submit/main.go: copy it from there")
	}
}
