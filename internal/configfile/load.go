package configfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// Options says where the values come from.
type Options struct {
	// Path is the YAML file. Empty means no file and no drop-ins.
	Path string

	// Optional allows the file to be missing. Drop-ins are read all the same.
	Optional bool

	// EnvPrefix starts the names of variables, without the underscore, for
	// example "AUTOBOT". Empty means that the environment is not read.
	EnvPrefix string

	// Environ replaces the process environment, as "NAME=value"; nil means
	// os.Environ.
	Environ []string

	// Overrides are values from flags: dotted key to text.
	Overrides map[string]string
}

// Loaded tells about a configuration that was read.
type Loaded struct {
	target   reflect.Value
	files    []string
	sources  map[string]place
	warnings []string
}

// Files returns the files that were read, in order.
func (l *Loaded) Files() []string { return slices.Clone(l.files) }

// Warnings returns sentences about things that work but deserve a look, such
// as a file with a secret that everybody may read.
func (l *Loaded) Warnings() []string { return slices.Clone(l.warnings) }

// Load fills target, a pointer to a struct that holds the defaults.
//
// Fields are named by their yaml tag ("name", ",inline", "-", or ",remain" on a
// map[string]map[string]any that takes unknown sub-sections). The tag
// secret:"true" masks a value, secret:"url" masks the password inside one, and
// path:"true" makes a relative path relative to the file it was written in.
// Fields may be strings, bools, numbers, time.Duration, Size, anything with
// UnmarshalText, structs, and slices and string maps of these.
//
// An error is an *Error with every problem found, unless target has a field of
// a type that cannot be read. After an error target may be half filled: load
// into a fresh one.
func Load(o Options, target any) (*Loaded, error) {
	l, err := newLoader(o, target)
	if err != nil {
		return nil, err
	}
	for _, path := range l.findFiles(o) {
		l.applyFile(path, o.Optional && path == o.Path)
	}
	l.applyEnv(o)
	l.applyOverrides(o.Overrides)
	l.validate()
	if len(l.problems) > 0 {
		return nil, &Error{Problems: l.problems}
	}
	l.warnings = append(l.warnings, l.secretWarnings()...)
	if w, ok := target.(Warner); ok {
		for _, p := range w.Warnings() {
			p.Source = l.sourceOf(p.Key).exact()
			l.warnings = append(l.warnings, p.String())
		}
	}
	return &l.Loaded, nil
}

// loader is a Load in progress.
type loader struct {
	Loaded
	schema   *schema
	problems []Problem
	readable map[string]bool // files that everybody may read
	broken   bool            // a file told nothing: what is missing may be in it
}

// place is where a value was set.
type place struct {
	file         string // empty for a variable or flag
	line, column int
	label        string // "env AUTOBOT_X" or "flag", empty for a file
}

// short returns the source as Entries shows it.
func (p place) short() string {
	if p.label != "" {
		return p.label
	}
	if p.line == 0 {
		return p.file
	}
	return fmt.Sprintf("%s:%d", p.file, p.line)
}

// exact returns the source as problems show it.
func (p place) exact() string {
	if p.label != "" || p.line == 0 {
		return p.short()
	}
	return fmt.Sprintf("%s:%d:%d", p.file, p.line, p.column)
}

func newLoader(o Options, target any) (*loader, error) {
	v := reflect.ValueOf(target)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("load configuration: target is a %T, not a pointer to a struct", target)
	}
	s, err := newSchema(v.Elem(), "")
	if err != nil {
		return nil, fmt.Errorf("load configuration: %w", err)
	}
	l := &loader{schema: s, readable: map[string]bool{}}
	l.target = v.Elem()
	l.sources = map[string]place{}
	return l, nil
}

// findFiles returns the file and its drop-ins.
func (l *loader) findFiles(o Options) []string {
	if o.Path == "" {
		return nil
	}
	files := []string{o.Path}
	dropIns, err := filepath.Glob(filepath.Join(escapeGlob(DropInDir(o.Path)), "*.yaml"))
	if err != nil {
		l.problem(place{file: DropInDir(o.Path)}, "", "cannot list drop-in files: %v", err)
	}
	for _, f := range dropIns { // sorted by Glob
		if !strings.HasPrefix(filepath.Base(f), ".") {
			files = append(files, f)
		}
	}
	return files
}

// DropInDir returns the folder whose *.yaml files are read after path: for
// /etc/autobot/agent.yaml it is /etc/autobot/agent.d.
func DropInDir(path string) string {
	return strings.TrimSuffix(path, filepath.Ext(path)) + ".d"
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func (l *loader) applyFile(path string, optional bool) {
	text, info, err := readLimited(path, maxFileBytes)
	if optional && errors.Is(err, os.ErrNotExist) {
		return
	}
	l.files = append(l.files, path)
	if err != nil {
		l.problem(place{file: path}, "", "%v", explainRead(err))
		l.broken = true
		return
	}
	if info.Mode().Perm()&0o004 != 0 {
		l.readable[path] = true
	}
	if info.Mode().Perm()&0o002 != 0 {
		l.warnings = append(l.warnings, fmt.Sprintf("%s may be changed by every user (repair: chmod o-w %s)", path, path))
	}
	l.applyText(path, text)
}

func (l *loader) applyText(path string, text []byte) {
	root, problems := parseYAML(path, text)
	l.problems = append(l.problems, problems...)
	l.broken = l.broken || root == nil && len(problems) > 0
	if root != nil {
		l.assignStruct(l.schema, root, origin{at: place{file: path}, dir: filepath.Dir(path)})
	}
}

// applyOverrides sets the values given by flags.
func (l *loader) applyOverrides(overrides map[string]string) {
	keys := make([]string, 0, len(overrides))
	for k := range overrides {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, key := range keys {
		o := origin{at: place{label: "flag"}, text: true}
		if leaf, ok := l.schema.leaves[key]; ok {
			l.assignText(leaf, key, overrides[key], o)
			continue
		}
		if section, name, sub, ok := l.schema.splitRemain(key); ok {
			l.assignRemainText(section, name, sub, overrides[key], o)
			continue
		}
		l.problem(o.at, key, "unknown key%s", l.schema.hint(key))
	}
}

// validate asks each section about its values. A key that could not be read is
// not complained about again, and nothing is when a whole file could not.
func (l *loader) validate() {
	if l.broken {
		return
	}
	complained := map[string]bool{}
	for _, p := range l.problems {
		complained[p.Key] = true
	}
	type finding struct{ key, message string }
	seen := map[finding]bool{}
	for _, s := range l.schema.sections() {
		v, ok := s.value.Addr().Interface().(Validator)
		if !ok {
			continue
		}
		for _, p := range v.Validate() {
			p.Key = joinKey(s.prefix, p.Key)
			f := finding{p.Key, p.Message}
			if seen[f] || within(p.Key, complained) {
				continue
			}
			seen[f] = true
			if p.Source == "" {
				p.Source = l.sourceOf(p.Key).exact()
			}
			l.problems = append(l.problems, p)
		}
	}
}

// within reports whether keys holds key or a section around it.
func within(key string, keys map[string]bool) bool {
	for key != "" {
		if keys[key] {
			return true
		}
		cut := strings.LastIndexAny(key, ".[")
		key = key[:max(cut, 0)]
	}
	return false
}

// sourceOf returns where key, or the nearest section around it, was set.
func (l *Loaded) sourceOf(key string) place {
	for key != "" {
		if p, ok := l.sources[key]; ok {
			return p
		}
		cut := strings.LastIndexAny(key, ".[")
		key = key[:max(cut, 0)]
	}
	return place{}
}

func (l *loader) problem(at place, key, format string, args ...any) {
	l.problems = append(l.problems, Problem{Key: key, Message: fmt.Sprintf(format, args...), Source: at.exact()})
}

func joinKey(prefix, name string) string {
	if prefix == "" || name == "" {
		return prefix + name
	}
	return prefix + "." + name
}
