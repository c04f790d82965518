package rawjson

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Members calls each with the members of an object in their order, repeated
// ones included; name and value are parts of b. It returns false if b is not a
// valid object, possibly after some calls, or when each has returned false.
func Members(b []byte, each func(name string, value json.RawMessage) bool) bool {
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return false
	}
	end, ok := object(b, i, 1, func(quoted, value []byte) bool {
		name, ok := Text(quoted)
		return ok && each(name, value)
	})
	return ok && space(b, end) == len(b)
}

// Text is the content of a valid JSON string. What is not valid UTF-8 becomes
// the replacement character, as with encoding/json. It returns false if b is
// not a string.
func Text(b []byte) (string, bool) {
	b = bytes.Trim(b, " \t\r\n")
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return "", false
	}
	inner := b[1 : len(b)-1]
	if plain(inner, 0) == len(inner) && utf8.Valid(inner) {
		return string(inner), true
	}
	var s string
	return s, json.Unmarshal(b, &s) == nil
}
