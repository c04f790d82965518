package executors

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
)

// maxSettings bounds the settings file.
const maxSettings = 1 << 20

// Settings reads what the administrator set for this executor (executors.NAME
// in the agent's configuration) into target, a pointer to a struct with json
// tags that may hold defaults. Durations are written as "15s" or as seconds.
// Unknown keys are errors that name the nearest known one. Without settings
// target stays as it is.
//
// target may have a method Validate() error, which is called at the end.
func Settings(target any) error {
	v := reflect.ValueOf(target)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("settings: target is a %T, it must be a pointer to a struct", target)
	}
	if path := os.Getenv(EnvConfig); path != "" {
		raw, err := readSettings(path)
		if err != nil {
			return err
		}
		d := &strict{durations: true}
		if problem := d.decode("", raw, v.Elem()); problem != nil {
			return fmt.Errorf("settings of the executor: %w", problem)
		}
	}
	if checked, ok := target.(interface{ Validate() error }); ok {
		if err := checked.Validate(); err != nil {
			return fmt.Errorf("settings of the executor: %w", err)
		}
	}
	return nil
}

func readSettings(path string) (json.RawMessage, error) {
	raw, err := os.ReadFile(path) //nolint:gosec // named by the agent that started us
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the settings of the executor: %w", err)
	case len(raw) > maxSettings:
		return nil, errors.New("the settings of the executor are longer than 1 MiB")
	case !json.Valid(raw):
		return nil, fmt.Errorf("the settings of the executor are not JSON: %s", syntaxProblem(raw))
	}
	return raw, nil
}

func sortedUnique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
