package playwright

import (
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"
)

// minSecret is the length from which a secret can be taken out of texts
// without tearing them apart.
const minSecret = 4

const redacted = "[redacted]"

// A redactor takes values out of texts that users see.
type redactor struct {
	secret *strings.Replacer // values of secret_ref: taken out of everything
	all    *strings.Replacer // also fill values, cookies and headers: out of errors and what pages say
}

// newRedactor takes the values of secrets, and of those that the payload has
// in clear.
func newRedactor(secrets, clear []string) *redactor {
	return &redactor{secret: replacer(secrets), all: replacer(append(slices.Clone(secrets), clear...))}
}

// replacer replaces the values in every spelling that a page, an address or a
// message gives them, the longest first.
func replacer(values []string) *strings.Replacer {
	var forms []string
	for _, v := range values {
		if len(v) < minSecret {
			continue
		}
		quoted, _ := json.Marshal(v) // a string can always be encoded
		forms = append(forms, v, url.QueryEscape(v), url.PathEscape(v), html.EscapeString(v), strings.Trim(string(quoted), `"`))
	}
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, f := range slices.Compact(forms) {
		pairs = append(pairs, f, redacted)
	}
	return strings.NewReplacer(pairs...)
}

// value cleans what a step has read from a page.
func (r *redactor) value(s string) string { return r.secret.Replace(s) }

// message cleans an error, an address, or what a page says of itself.
func (r *redactor) message(s string) string { return r.all.Replace(s) }

// any cleans all texts in a JSON value.
func (r *redactor) any(v any) any {
	switch v := v.(type) {
	case string:
		return r.value(v)
	case []any:
		for i := range v {
			v[i] = r.any(v[i])
		}
	case map[string]any:
		for key, inner := range v {
			if clean := r.value(key); clean != key {
				delete(v, key)
				key = clean
			}
			v[key] = r.any(inner)
		}
	}
	return v
}
