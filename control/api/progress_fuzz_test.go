package api

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// FuzzProgress: a stored progress event of any bytes becomes one JSON object
// that keeps its fields.
func FuzzProgress(f *testing.F) {
	for _, s := range []string{``, `{}`, `null`, `{"percent":50,"message":"m"}`, `{"percent":1,"progress_percent":2}`, `[1]`, `"x"`, `{`, "\xff", `{"a":"\ud800"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var out map[string]json.RawMessage
		if data := progressData(raw); json.Unmarshal(data, &out) != nil || out == nil {
			t.Fatalf("%q became %q", raw, data)
		}
		var in map[string]json.RawMessage
		if !utf8.Valid(raw) || json.Unmarshal(raw, &in) != nil {
			return
		}
		for name := range in {
			if _, kept := out[name]; !kept {
				t.Errorf("%q lost %q: %v", raw, name, out)
			}
		}
	})
}
