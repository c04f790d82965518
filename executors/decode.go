package executors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/internal/rawjson"
)

// A fieldError is one thing wrong with a JSON document.
type fieldError struct {
	path    string // "" is the document itself
	message string
}

func (e *fieldError) Error() string {
	if e.path == "" {
		return e.message
	}
	return e.path + ": " + e.message
}

// A strict decoder reads JSON into Go values by their json tags. Unlike
// encoding/json it knows where it is, refuses unknown and repeated fields and
// compares names exactly. null leaves a value as it is. A whole number may be
// written as a float.
type strict struct {
	ignore    func(key string) bool // of unknown fields, may be nil
	known     []string              // further names for hints at the top level
	durations bool                  // time.Duration takes "15s" and seconds
}

var (
	durationType    = reflect.TypeFor[time.Duration]()
	rawType         = reflect.TypeFor[json.RawMessage]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
)

// decode reads raw, which is valid JSON, into v, which is settable.
func (d *strict) decode(path string, raw json.RawMessage, v reflect.Value) *fieldError {
	raw = bytes.TrimSpace(raw)
	if v.Type() == rawType {
		v.SetBytes(bytes.Clone(raw))
		return nil
	}
	if bytes.Equal(raw, []byte("null")) {
		return nil
	}
	if d.durations && v.Type() == durationType {
		return d.duration(path, raw, v)
	}
	if v.CanAddr() && v.Addr().Type().Implements(unmarshalerType) {
		return d.standard(path, raw, v)
	}
	switch v.Kind() {
	case reflect.Pointer:
		target := reflect.New(v.Type().Elem())
		if err := d.decode(path, raw, target.Elem()); err != nil {
			return err
		}
		v.Set(target)
		return nil
	case reflect.Struct:
		return d.object(path, raw, v)
	case reflect.Map:
		return d.mapping(path, raw, v)
	case reflect.Slice:
		return d.list(path, raw, v)
	case reflect.String:
		text, ok := rawjson.Text(raw)
		if !ok {
			return wrongType(path, "a string", raw)
		}
		v.SetString(text)
		return nil
	case reflect.Bool:
		if raw[0] != 't' && raw[0] != 'f' {
			return wrongType(path, "true or false", raw)
		}
		v.SetBool(raw[0] == 't')
		return nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		return d.number(path, raw, v)
	}
	return d.standard(path, raw, v)
}

// standard leaves a value to encoding/json.
func (d *strict) standard(path string, raw json.RawMessage, v reflect.Value) *fieldError {
	if err := json.Unmarshal(raw, v.Addr().Interface()); err != nil {
		return &fieldError{path, strings.TrimPrefix(err.Error(), "json: ")}
	}
	return nil
}

func wrongType(path, want string, raw []byte) *fieldError {
	return &fieldError{path, fmt.Sprintf("must be %s, got %s", want, given(raw))}
}

func (d *strict) object(path string, raw json.RawMessage, v reflect.Value) *fieldError {
	fields := structFields(v.Type())
	return eachMember(path, raw, func(key string, value json.RawMessage) *fieldError {
		at := join(path, key)
		if index, ok := fields[key]; ok {
			return d.decode(at, value, fieldByIndex(v, index))
		}
		if d.ignore != nil && d.ignore(key) {
			return nil
		}
		names := make([]string, 0, len(fields))
		for name := range fields {
			names = append(names, name)
		}
		return &fieldError{at, "is an unknown field" + suggestion(key, sortedUnique(names))}
	})
}

func suggestion(key string, names []string) string {
	switch near := Nearest(key, names, 1); {
	case len(near) > 0:
		return fmt.Sprintf(", did you mean %s?", near[0])
	case len(names) == 0:
		return ", no field is known here"
	}
	return "; known are " + cutRunes(strings.Join(names, ", "), 400)
}

func (d *strict) mapping(path string, raw json.RawMessage, v reflect.Value) *fieldError {
	if v.Type().Key().Kind() != reflect.String {
		return d.standard(path, raw, v)
	}
	m := reflect.MakeMap(v.Type())
	err := eachMember(path, raw, func(key string, value json.RawMessage) *fieldError {
		item := reflect.New(v.Type().Elem()).Elem()
		if err := d.decode(join(path, key), value, item); err != nil {
			return err
		}
		m.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), item)
		return nil
	})
	if err == nil {
		v.Set(m)
	}
	return err
}

func (d *strict) list(path string, raw json.RawMessage, v reflect.Value) *fieldError {
	if raw[0] != '[' {
		if v.Type().Elem().Kind() == reflect.Uint8 && raw[0] == '"' {
			return d.standard(path, raw, v) // base64
		}
		return wrongType(path, "a list", raw)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return &fieldError{path, err.Error()}
	}
	out := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		if err := d.decode(fmt.Sprintf("%s[%d]", path, i), item, out.Index(i)); err != nil {
			return err
		}
	}
	v.Set(out)
	return nil
}

func (d *strict) number(path string, raw json.RawMessage, v reflect.Value) *fieldError {
	if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return wrongType(path, "a number", raw)
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return wrongType(path, "a number in range", raw)
	}
	switch {
	case v.CanFloat():
		if v.OverflowFloat(f) {
			return wrongType(path, "a number in range", raw)
		}
		v.SetFloat(f)
	case v.CanInt():
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil { // 3.0 and 1e3 are whole numbers too
			if f != math.Trunc(f) || math.Abs(f) > 1<<53 {
				return wrongType(path, "a whole number", raw)
			}
			n = int64(f)
		}
		if v.OverflowInt(n) {
			return wrongType(path, "a whole number in range", raw)
		}
		v.SetInt(n)
	default:
		if f < 0 || f != math.Trunc(f) || f > 1<<53 || v.OverflowUint(uint64(f)) {
			return wrongType(path, "a whole number, not negative and in range", raw)
		}
		v.SetUint(uint64(f))
	}
	return nil
}

func (d *strict) duration(path string, raw json.RawMessage, v reflect.Value) *fieldError {
	const want = `a duration such as "15s", or seconds`
	var text string
	if json.Unmarshal(raw, &text) == nil {
		parsed, err := parseDuration(text)
		if err != nil {
			return wrongType(path, want, raw)
		}
		v.SetInt(int64(parsed))
		return nil
	}
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.Abs(seconds) > 1e9 {
		return wrongType(path, want, raw)
	}
	v.SetInt(int64(seconds * float64(time.Second)))
	return nil
}

// parseDuration is time.ParseDuration with days.
func parseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || math.Abs(n) > 1e5 {
			return 0, fmt.Errorf("bad duration %q", s)
		}
		return time.Duration(n * 24 * float64(time.Hour)), nil
	}
	return time.ParseDuration(s)
}

// eachMember calls f for the members of an object, in their order. It refuses
// a name that is there twice.
func eachMember(path string, raw json.RawMessage, f func(key string, value json.RawMessage) *fieldError) *fieldError {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return wrongType(path, "an object", raw)
	}
	seen := make(map[string]bool)
	var problem *fieldError
	if !rawjson.Members(raw, func(key string, value json.RawMessage) bool {
		if seen[key] {
			problem = &fieldError{join(path, key), "is there twice"}
			return false
		}
		seen[key] = true
		problem = f(key, value)
		return problem == nil
	}) && problem == nil {
		return &fieldError{path, "is not valid JSON: " + syntaxProblem(raw)}
	}
	return problem
}

// join appends a name to a path. Names that users made up are cut.
func join(path, key string) string {
	key = printable(cutRunes(key, maxGiven))
	if path == "" {
		return key
	}
	return path + "." + key
}

// structFields maps the JSON names of a struct to field indexes; fields of
// embedded structs count as its own.
func structFields(t reflect.Type) map[string][]int {
	fields := make(map[string][]int)
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || (f.Anonymous && name == "") {
			continue
		}
		if name == "" {
			name = f.Name
		}
		fields[name] = f.Index
	}
	return fields
}

// fieldByIndex is v.FieldByIndex that makes embedded pointers on its way.
func fieldByIndex(v reflect.Value, index []int) reflect.Value {
	for i, x := range index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(x)
	}
	return v
}
