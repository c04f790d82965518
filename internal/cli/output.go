package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"
)

// outputs are the values of --output.
var outputs = []string{"table", "json", "yaml"}

// Print writes v as JSON or YAML, or calls people to write it for people.
func (a *App) Print(v any, people func(w io.Writer) error) error {
	if a.Output == "table" {
		return people(a.Stdout)
	}
	doc, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	if a.Output == "yaml" {
		if doc, err = yaml.JSONToYAML(doc); err != nil {
			return fmt.Errorf("print the answer: %w", err)
		}
	}
	_, err = fmt.Fprintln(a.Stdout, strings.TrimRight(string(doc), "\n"))
	return err
}
