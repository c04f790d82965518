package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/autobot-fleet/autobot/internal/nearest"
	"github.com/autobot-fleet/autobot/queue"
)

// Limits on bodies. A submission is a payload and little else.
const (
	envelope    = 64 << 10
	maxBody     = queue.MaxPayload + envelope
	maxBulk     = 1000 // submissions in one array
	maxBulkBody = 32 << 20
	maxSmall    = envelope // bodies of operators' requests
)

// readBody reads a body of at most limit bytes.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return nil, refuse(http.StatusUnsupportedMediaType, "a body with Content-Encoding %.40q cannot be read: send it uncompressed", enc)
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, err
	case err != nil:
		return nil, refuse(http.StatusBadRequest, "the body broke off after %d bytes", len(b))
	}
	return b, nil
}

// decode reads a small JSON body into the struct that v points to. An empty
// body leaves v as it is.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	b, err := readBody(w, r, maxSmall)
	if err != nil || len(bytes.TrimSpace(b)) == 0 {
		return err
	}
	_, err = decodeObject(b, "", v)
	return err
}

// decodeObject decodes one JSON object strictly: a field that the struct does
// not have is an error that names the nearest one, and so is a value of the
// wrong kind. Field names match exactly. It returns the fields that were given
// (null is the same as not given). Path goes before the names in errors.
func decodeObject(b []byte, path string, v any) (map[string]json.RawMessage, error) {
	raw, err := parseObject(b, path)
	if err != nil {
		return nil, err
	}
	target := reflect.ValueOf(v).Elem()
	fields := fieldsOf(target.Type())
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	given := make([]string, 0, len(raw))
	for name := range raw {
		given = append(given, name)
	}
	slices.Sort(given) // the first error is always the same one
	for _, name := range given {
		index, known := fields[name]
		if !known {
			return nil, invalid(join(path, show(name)), "is unknown%s", suggest(name, names))
		}
		if string(raw[name]) == "null" {
			delete(raw, name)
			continue
		}
		if err := json.Unmarshal(raw[name], target.Field(index).Addr().Interface()); err != nil {
			return nil, wrongValue(join(path, name), raw[name], err)
		}
	}
	return raw, nil
}

// parseObject splits an object into its fields, byte for byte.
func parseObject(b []byte, path string) (map[string]json.RawMessage, error) {
	if !utf8.Valid(b) {
		return nil, invalid(orBody(path), "is not valid UTF-8")
	}
	var raw map[string]json.RawMessage
	err := json.Unmarshal(b, &raw)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, invalid(orBody(path), "is not valid JSON: %s at byte %d", syntax.Error(), syntax.Offset)
	case err != nil:
		return nil, invalid(orBody(path), "must be a JSON object, got %s", kindOf(b))
	case raw == nil:
		return nil, invalid(orBody(path), "must be a JSON object, got null")
	}
	return raw, nil
}

// fieldsOf maps the JSON names of a flat struct to its fields.
func fieldsOf(t reflect.Type) map[string]int {
	out := map[string]int{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			out[name] = i
		}
	}
	return out
}

// wrongValue says what kind of value was wanted where.
func wrongValue(path string, value json.RawMessage, err error) error {
	var typed *json.UnmarshalTypeError
	if !errors.As(err, &typed) {
		return invalid(path, "cannot be read: %v", err)
	}
	if typed.Field != "" {
		path = join(path, typed.Field)
	}
	return invalid(path, "must be %s, got %s", wanted(typed.Type), show(string(value)))
}

func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	case reflect.Map:
		return "an object"
	}
	return "of another kind"
}

// kindOf names the kind of a JSON value.
func kindOf(b []byte) string {
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return "nothing"
	}
	switch b[0] {
	case '[':
		return "a list"
	case '{':
		return "an object"
	case '"':
		return "a string"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}

// show quotes at most 80 characters of what a caller sent.
func show(s string) string {
	if r := []rune(s); len(r) > 80 {
		s = string(r[:80]) + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func orBody(path string) string {
	if path == "" {
		return "body"
	}
	return path
}

// suggest names the known word nearest to a wrong one, or all when none is
// near.
func suggest(word string, known []string) string {
	sorted := slices.Sorted(slices.Values(known))
	near := nearest.By(sorted, 1, func(k string) (int, bool) {
		if len(word) > 64 { // nobody mistypes that
			return 0, false
		}
		far := nearest.Distance(word, k)
		return far, far <= len(word)/2
	})
	switch {
	case len(near) > 0:
		return fmt.Sprintf(" (did you mean %q?)", near[0])
	case len(known) == 0:
		return ""
	}
	return " (known: " + strings.Join(sorted, ", ") + ")"
}
