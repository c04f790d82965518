package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// reply writes v as JSON, without a line end and without escaping what HTML
// would mind: existing clients compare bodies.
func reply(w http.ResponseWriter, status int, v any) {
	body := mustJSON(v)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a caller who has gone does not need it
}

// mustJSON encodes what is ours or has passed safeJSON.
func mustJSON(v any) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimRight(buf.Bytes(), "\n")
}

// ok is reply with status 200, as the end of a handler.
func ok(w http.ResponseWriter, v any) error {
	reply(w, http.StatusOK, v)
	return nil
}

// safeJSON returns b when it is JSON in valid UTF-8, else a JSON string with
// its text: foreign producers and workers may have written anything.
func safeJSON(b []byte) json.RawMessage {
	if len(b) == 0 {
		return nil
	}
	if !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	}
	if json.Valid(b) {
		return b
	}
	return mustJSON(string(b))
}

// stamp is a time as all our bodies show it: UTC with an explicit offset and
// six fractional digits, which also old Python versions can read.
type stamp struct{ time.Time }

const stampLayout = "2006-01-02T15:04:05.000000-07:00"

// MarshalJSON writes the time; a time out of the range of four-digit years,
// which only a broken hash can hold, is null.
func (s stamp) MarshalJSON() ([]byte, error) {
	if y := s.UTC().Year(); s.IsZero() || y < 0 || y > 9999 {
		return []byte("null"), nil
	}
	return []byte(`"` + s.UTC().Format(stampLayout) + `"`), nil
}

// clean makes text from outside printable on one line.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
