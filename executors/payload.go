package executors

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/autobot-fleet/autobot/internal/rawjson"
)

// Limits of the common payload fields.
const (
	MinTimeoutMS  = 100
	MaxInline     = 64 << 10
	MinArtifactS  = 60
	MaxArtifactS  = 604_800
	maxTraceRunes = 128
)

// Common are the fields that a payload of any operation may have.
type Common struct {
	Op        string          `json:"op"`         // "" is the type's first operation
	TimeoutMS int64           `json:"timeout_ms"` // 0: none of its own; at least MinTimeoutMS
	Artifacts CommonArtifacts `json:"artifacts"`
	TraceID   string          `json:"trace_id"` // at most 128 printable characters
}

// CommonArtifacts is how a payload wants its artifacts.
type CommonArtifacts struct {
	InlineMaxBytes int64 `json:"inline_max_bytes"` // 0..MaxInline
	TTLSeconds     int64 `json:"ttl_s"`            // 0: the default; else MinArtifactS..MaxArtifactS
}

var commonFields = []string{"op", "timeout_ms", "artifacts", "trace_id"}

// DecodeCommon reads and checks the common fields of a payload and ignores all
// others. The error is an INVALID_INPUT *Error.
func DecodeCommon(task Task) (Common, error) {
	var c Common
	return c, decodePayload(task, &c, func(string) bool { return true })
}

// DecodePayload reads a payload into v, a pointer to a struct with json tags,
// which may hold defaults. It is strict: an unknown field, a repeated one or a
// value of the wrong type is an INVALID_INPUT *Error that names the JSON path
// and, for an unknown field, the nearest known one. Fields that begin with x_
// are ignored. The common fields are accepted and checked whether v has them
// or not. null leaves the default.
func DecodePayload(task Task, v any) error {
	return decodePayload(task, v, func(key string) bool { return strings.HasPrefix(key, "x_") })
}

func decodePayload(task Task, v any, ignore func(string) bool) error {
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() || target.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("decode payload: target is a %T, it must be a pointer to a struct", v)
	}
	payload, bad := checkPayload(task.Payload)
	if bad != nil {
		return bad
	}
	if !utf8.Valid(payload) {
		return Invalid("payload", "is not valid UTF-8")
	}
	var common Common
	commonTarget := reflect.ValueOf(&common).Elem()
	own := structFields(target.Elem().Type())
	commons := structFields(commonTarget.Type())
	d := &strict{ignore: ignore, known: commonFields}
	problem := eachMember("", payload, func(key string, value json.RawMessage) *fieldError {
		if index, ok := commons[key]; ok {
			if err := d.decode(key, value, fieldByIndex(commonTarget, index)); err != nil {
				return err
			}
			if _, ok := own[key]; !ok {
				return nil
			}
		}
		if index, ok := own[key]; ok {
			return d.decode(key, value, fieldByIndex(target.Elem(), index))
		}
		return d.unknown(key, own)
	})
	if problem == nil {
		problem = common.check()
	}
	if problem != nil {
		return invalidField(problem)
	}
	return nil
}

// unknown is the error for a top-level field, nil for one that is ignored.
func (d *strict) unknown(key string, own map[string][]int) *fieldError {
	if d.ignore(key) {
		return nil
	}
	names := append([]string{}, d.known...)
	for name := range own {
		names = append(names, name)
	}
	return &fieldError{join("", key), "is an unknown field" + suggestion(key, sortedUnique(names))}
}

func (c Common) check() *fieldError {
	outside := func(n, low, high int64) bool { return n < low || n > high }
	switch {
	case c.TimeoutMS != 0 && c.TimeoutMS < MinTimeoutMS:
		return &fieldError{"timeout_ms", fmt.Sprintf("must be at least %d, got %d", MinTimeoutMS, c.TimeoutMS)}
	case outside(c.Artifacts.InlineMaxBytes, 0, MaxInline):
		return &fieldError{"artifacts.inline_max_bytes", fmt.Sprintf("must be 0 to %d, got %d", MaxInline, c.Artifacts.InlineMaxBytes)}
	case c.Artifacts.TTLSeconds != 0 && outside(c.Artifacts.TTLSeconds, MinArtifactS, MaxArtifactS):
		return &fieldError{"artifacts.ttl_s", fmt.Sprintf("must be %d to %d, got %d", MinArtifactS, MaxArtifactS, c.Artifacts.TTLSeconds)}
	case utf8.RuneCountInString(c.TraceID) > maxTraceRunes:
		return &fieldError{"trace_id", fmt.Sprintf("must have at most %d characters, got %d", maxTraceRunes, utf8.RuneCountInString(c.TraceID))}
	case strings.ContainsFunc(c.TraceID, func(r rune) bool { return !unicode.IsPrint(r) }):
		return &fieldError{"trace_id", "must be printable"}
	}
	return nil
}

func invalidField(p *fieldError) *Error {
	if p.path == "" {
		return Invalid("payload", "%s", p.message)
	}
	return Invalid(p.path, "%s", p.message)
}

// Op is the operation that a task asks for; without one it is the first of its
// type. One that the type does not have is an UNSUPPORTED *Error that lists
// those it has.
func Op(task Task, typ TypeDescription) (string, error) {
	payload, bad := checkPayload(task.Payload)
	if bad != nil {
		return "", bad
	}
	var asked json.RawMessage
	rawjson.Members(payload, func(name string, value json.RawMessage) bool {
		if name == "op" {
			asked = value
		}
		return true
	})
	op := ""
	if len(asked) > 0 && string(asked) != "null" {
		var ok bool
		if op, ok = rawjson.Text(asked); !ok {
			return "", Invalid("op", "must be a string, got %s", given(asked))
		}
	}
	if op == "" {
		if len(typ.Ops) == 0 {
			return "", nil
		}
		return typ.Ops[0], nil
	}
	for _, known := range typ.Ops {
		if op == known {
			return op, nil
		}
	}
	e := Errorf(CodeUnsupported, "type %q has no operation %q; supported: %s", typ.Type, cutRunes(op, maxGiven), strings.Join(typ.Ops, ", "))
	e.Field = "op"
	if near := Nearest(op, typ.Ops, 1); len(near) > 0 {
		e.Hint = "did you mean " + near[0] + "?"
	}
	return "", e
}

// IsCode reports whether err carries the code.
func IsCode(err error, code Code) bool {
	var e *Error
	return errors.As(err, &e) && e != nil && e.Code == code
}
