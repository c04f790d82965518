package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/autobot-fleet/autobot/cmd/autobot-control/internal/term"
)

// outputs are the values of --output.
var outputs = []string{"table", "json", "yaml"}

// print writes v as JSON or YAML, or calls people to write it for people.
func (env *environment) print(v any, people func(w io.Writer) error) error {
	if env.output == "table" {
		return people(env.stdout)
	}
	doc, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	if env.output == "yaml" {
		if doc, err = yaml.JSONToYAML(doc); err != nil {
			return fmt.Errorf("print the answer: %w", err)
		}
	}
	_, err = fmt.Fprintln(env.stdout, strings.TrimRight(string(doc), "\n"))
	return err
}

// printTable writes rows under headers: with borders on a terminal, else in
// plain columns that scripts can cut.
func printTable(w io.Writer, headers []string, rows [][]string) error {
	return term.Table(w, headers, rows)
}

// printable drops what would move the cursor or start a new row.
func printable(s string) string { return term.Printable(s) }
