package tts

import (
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

var webAddress = regexp.MustCompile(`(?i)(https?://|www\.)[^\s<>"]+`)

// sayURLs replaces web addresses by what a person would read out: host and
// path, in English with "dot" and "slash". Scheme, "www.", user, query and
// fragment are left out.
func sayURLs(text string, english bool) string {
	return rewrite(webAddress, text, func(m match) (string, bool) {
		if endsWord(m.before) {
			return "", false
		}
		raw, tail := splitTrailing(m.groups[0])
		said := sayURL(raw, english)
		return said + tail, said != ""
	})
}

// splitTrailing splits off the punctuation of the sentence an address is in.
func splitTrailing(s string) (address, tail string) {
	end := len(strings.TrimRight(s, `.,;:!?'*_~`))
	// A closing bracket belongs to the address only if it was opened there.
	for end > 0 && strings.ContainsRune(")]}", rune(s[end-1])) {
		open := map[byte]string{')': "(", ']': "[", '}': "{"}[s[end-1]]
		if strings.Contains(s[:end], open) {
			break
		}
		end = len(strings.TrimRight(s[:end-1], `.,;:!?'*_~`))
	}
	return s[:end], s[end:]
}

func sayURL(raw string, english bool) string {
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	host := strings.TrimPrefix(strings.ToLower(u.Host), "www.")
	path := strings.Trim(u.EscapedPath(), "/")
	if plain, err := url.PathUnescape(path); err == nil && printable(plain) {
		path = plain
	}
	if !english {
		if path != "" {
			host += "/" + path
		}
		return host
	}
	said := strings.ReplaceAll(host, ".", " dot ")
	said = strings.ReplaceAll(said, ":", " port ")
	for part := range strings.SplitSeq(path, "/") {
		if part = strings.Join(strings.FieldsFunc(part, isSeparator), " "); part != "" {
			said += " slash " + strings.ReplaceAll(part, ".", " dot ")
		}
	}
	return strings.Join(strings.Fields(said), " ")
}

func isSeparator(r rune) bool { return r == '-' || r == '_' || r == '+' || unicode.IsSpace(r) }

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) })
}
