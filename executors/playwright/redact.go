package playwright

import (
	"encoding/json"
	"fmt"
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
		if len(v) >= minSecret {
			forms = append(forms, spellings(v)...)
		}
	}
	slices.Sort(forms)
	forms = slices.Compact(forms)
	slices.SortStableFunc(forms, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(forms))
	for _, f := range forms {
		pairs = append(pairs, f, redacted)
	}
	return strings.NewReplacer(pairs...)
}

// Escapes of HTML as browsers write it, in texts and in attributes.
var (
	inText      = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\u00a0", "&nbsp;")
	inAttribute = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\u00a0", "&nbsp;", `"`, "&quot;")
	inOldStyle  = strings.NewReplacer("&", "&amp;", "\u00a0", "&nbsp;", `"`, "&quot;")
)

func spellings(v string) []string {
	quoted, _ := json.Marshal(v) // a string can always be encoded
	plain, _ := encode(v)
	return []string{
		v, strings.Trim(string(quoted), `"`), strings.Trim(string(plain), `"`),
		inText.Replace(v), inAttribute.Replace(v), inOldStyle.Replace(v), html.EscapeString(v),
		url.QueryEscape(v), url.PathEscape(v),
		strings.ReplaceAll(percent(v, "*-._ "), " ", "+"), // of a form
		percent(v, "-_.!~*'()"),                           // encodeURIComponent
		percent(v, "!$%&()*+,-./:;=?@[\\]^_`{|}~"),        // of a query that a script has put together
		percent(v, "!$%&()*+,-./:;=@[\\]^_|~"),            // of a path
	}
}

// percent encodes all bytes but letters, digits and those in keep.
func percent(v, keep string) string {
	var b strings.Builder
	for i := range len(v) {
		c := v[i]
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(keep, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
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
