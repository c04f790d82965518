package configfile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Entry is one effective setting.
type Entry struct {
	Key    string `json:"key" yaml:"key"`
	Value  string `json:"value" yaml:"value"`
	Source string `json:"source" yaml:"source"` // "default", "file:line", "env AUTOBOT_X" or "flag"
}

const mask = "***"

// Entries returns every setting in the order of the struct, with secrets
// masked. It shows the values as they are now in the target of Load.
func (l *Loaded) Entries() []Entry {
	s, err := newSchema(l.target, "")
	if err != nil {
		return nil // Load has succeeded with the same type
	}
	return l.entries(s)
}

func (l *Loaded) entries(s *schema) []Entry {
	var out []Entry
	for _, name := range s.order {
		if sub := s.subs[name]; sub != nil {
			out = append(out, l.entries(sub)...)
			continue
		}
		f := s.fields[name]
		out = append(out, l.valueEntries(f.value, f.key, f.secret)...)
	}
	if s.remain.IsValid() {
		for _, name := range sortedKeys(s.remain) {
			section := s.remain.MapIndex(reflect.ValueOf(name))
			for _, key := range sortedKeys(section) {
				full := joinKey(joinKey(s.prefix, name), key)
				secret := ""
				if looksSecret(key) {
					secret = "true"
				}
				out = append(out, l.entry(full, section.MapIndex(reflect.ValueOf(key)), secret))
			}
		}
	}
	return out
}

// valueEntries expands lists and maps of structs into their keys.
func (l *Loaded) valueEntries(v reflect.Value, key, secret string) []Entry {
	t := v.Type()
	inside := (t.Kind() == reflect.Slice || t.Kind() == reflect.Map) && isSection(t.Elem())
	if !inside || v.Len() == 0 {
		return []Entry{l.entry(key, v, secret)}
	}
	var out []Entry
	add := func(elem reflect.Value, elemKey string) {
		fresh := reflect.New(t.Elem()).Elem() // map values are not addressable
		fresh.Set(elem)
		if s, err := newSchema(fresh, elemKey); err == nil {
			out = append(out, l.entries(s)...)
		}
	}
	if t.Kind() == reflect.Slice {
		for i := range v.Len() {
			add(v.Index(i), fmt.Sprintf("%s[%d]", key, i))
		}
		return out
	}
	for _, name := range sortedKeys(v) {
		add(v.MapIndex(reflect.ValueOf(name).Convert(t.Key())), joinKey(key, name))
	}
	return out
}

func (l *Loaded) entry(key string, v reflect.Value, secret string) Entry {
	source := l.sourceOf(key).short()
	if _, set := l.sources[key]; !set && !l.setInside(key) {
		source = "default"
	}
	return Entry{Key: key, Value: maskValue(formatValue(v), secret), Source: source}
}

// setInside reports whether key lies inside a list, map or unknown section
// that was set: what it contains has the same source.
func (l *Loaded) setInside(key string) bool {
	for cut := strings.LastIndexAny(key, ".["); cut > 0; cut = strings.LastIndexAny(key, ".[") {
		key = key[:cut]
		if _, set := l.sources[key]; set {
			s, err := newSchema(l.target, "")
			if err != nil {
				return false
			}
			_, isLeaf := s.leaves[key]
			return isLeaf
		}
	}
	return false
}

func maskValue(value, secret string) string {
	switch {
	case value == "" || secret == "":
		return value
	case secret == "url":
		return MaskURL(value)
	default:
		return mask
	}
}

// MaskURL returns text with the password of a URL masked. A text with an @
// where none should be, which may end a password that was not escaped, is
// masked as a whole.
func MaskURL(text string) string {
	if !strings.Contains(text, "@") {
		return text
	}
	scheme, rest, ok := strings.Cut(text, "://")
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	at := strings.LastIndexByte(authority, '@')
	if !ok || at < 0 || strings.Contains(rest[at+1:], "@") {
		return mask
	}
	user, _, hasPassword := strings.Cut(authority[:at], ":")
	if !hasPassword {
		return text
	}
	return scheme + "://" + user + ":" + mask + rest[at:]
}

// looksSecret guesses from its name whether a setting of an executor, whose
// types are not known here, is a secret.
func looksSecret(key string) bool {
	key = strings.ToLower(key)
	if strings.HasSuffix(key, "_file") || strings.HasSuffix(key, "_path") {
		return false
	}
	return slices.ContainsFunc([]string{"password", "passwd", "secret", "token", "credential", "api_key", "apikey", "private_key"},
		func(word string) bool { return strings.Contains(key, word) })
}

// formatValue writes a value on one line, as it could stand in a file.
func formatValue(v reflect.Value) string {
	switch {
	case !v.IsValid():
		return ""
	case v.Type() == durationType:
		return FormatDuration(time.Duration(v.Int()))
	}
	if text, ok := v.Interface().(fmt.Stringer); ok && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		return text.String()
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return ""
		}
		return formatValue(v.Elem())
	case reflect.Slice:
		parts := make([]string, 0, v.Len())
		for i := range v.Len() {
			parts = append(parts, formatValue(v.Index(i)))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case reflect.Map:
		parts := make([]string, 0, v.Len())
		for _, name := range sortedKeys(v) {
			value := formatValue(v.MapIndex(reflect.ValueOf(name).Convert(v.Type().Key())))
			if looksSecret(name) {
				value = maskValue(value, "true")
			}
			parts = append(parts, name+": "+value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	default:
		return fmt.Sprint(v.Interface())
	}
}

func sortedKeys(m reflect.Value) []string {
	keys := make([]string, 0, m.Len())
	for _, k := range m.MapKeys() {
		keys = append(keys, k.String())
	}
	slices.Sort(keys)
	return keys
}

// secretWarnings finds secrets in files that everybody may read.
func (l *loader) secretWarnings() []string {
	var out []string
	for _, s := range l.schema.sections() {
		for _, name := range s.order {
			f, isLeaf := s.fields[name]
			if !isLeaf || f.secret == "" || !l.readable[l.sources[f.key].file] {
				continue
			}
			if text := formatValue(f.value); f.secret == "url" && MaskURL(text) == text {
				continue // no password inside
			}
			at := l.sources[f.key]
			out = append(out, fmt.Sprintf("%s: %s is a secret in a file that every user may read (repair: chmod 600 %s)",
				at.short(), f.key, at.file))
		}
	}
	return out
}
