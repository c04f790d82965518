package playwright

import (
	"bytes"
	"encoding/json"
	"errors"
)

// jsonString reads a JSON string.
func jsonString(raw []byte, s *string) error {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '"' {
		return errors.New("not a string")
	}
	return json.Unmarshal(raw, s)
}

// strictObject reads a JSON object and refuses unknown fields.
func strictObject(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// encode is json.Marshal that leaves < and > of HTML as they are.
func encode(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(buf.Bytes()), nil
}
