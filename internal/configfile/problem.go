package configfile

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	// Key is the dotted key concerned, for example "redis.url"; empty if the
	// problem is about a file as a whole.
	Key string

	// Message says what is wrong and how to repair it. It holds no secret.
	Message string

	// Source is where the value was set: "file:line:column", "file",
	// "env AUTOBOT_X" or "flag". Load fills it in for problems found by
	// Validate; it stays empty for a value that was never set.
	Source string
}

// String returns "source: key: message" without the parts that are empty.
func (p Problem) String() string {
	parts := []string{p.Source, p.Key, p.Message}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}

// Error is everything that is wrong with a configuration. Programs exit with
// code 78 on it.
type Error struct {
	Problems []Problem
}

// Error returns one line for a single problem, else a line for each.
func (e *Error) Error() string {
	if len(e.Problems) == 1 {
		return "configuration: " + e.Problems[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "configuration has %d problems:", len(e.Problems))
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// Validator is implemented by a target, or a section of it, that can check its
// values. Keys are relative to the section. Load calls it for each section.
type Validator interface {
	Validate() []Problem
}

// Warner is implemented by a target that knows of settings which work and
// deserve a look. Load calls it when there are no problems; what it says is
// among the warnings, with the place of the key.
type Warner interface {
	Warnings() []Problem
}
