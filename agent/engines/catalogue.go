package engines

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
)

//go:embed catalogue.yaml
var pinned []byte

// Kind says in which folder an entry is installed.
type Kind string

// The kinds of entries.
const (
	KindEngine Kind = "engine" // engines/NAME/VERSION
	KindModel  Kind = "model"  // models/NAME
	KindData   Kind = "data"   // data/NAME
)

// The values of Source.From.
const (
	FromPip = "pip"
	FromNpm = "npm"
)

// Entry is one thing that can be installed.
type Entry struct {
	Name    string         `yaml:"name"`
	Version string         `yaml:"version"` // "distribution" if only System brings it
	Kind    Kind           `yaml:"kind"`
	About   string         `yaml:"about"`
	Licence string         `yaml:"licence"`
	Free    bool           `yaml:"free"`  // whether the licence is plainly a free one
	All     bool           `yaml:"all"`   // whether "all" means it too
	Why     string         `yaml:"why"`   // why All is false
	Needs   []string       `yaml:"needs"` // other entries, where the machine has nothing like it
	System  []System       `yaml:"system"`
	Sources []Source       `yaml:"sources"`
	Card    map[string]any `yaml:"card"` // of a model, without name, files and what the entry says
}

// System is a package of the distribution.
type System struct {
	Package  string `yaml:"package"`
	Have     string `yaml:"have"`     // file, or command in PATH, that it brings
	Download int64  `yaml:"download"` // bytes, about
	Disk     int64  `yaml:"disk"`     // bytes, about
}

// Source is an archive of which files are kept.
type Source struct {
	From     string `yaml:"from"` // pip or npm
	Package  string `yaml:"package"`
	Version  string `yaml:"version"`
	Arch     string `yaml:"arch"`     // Go's name of the processor, "" is any
	Platform string `yaml:"platform"` // pip's
	Archive  string `yaml:"archive"`  // file name: .whl or .tgz
	Size     int64  `yaml:"size"`
	SHA256   string `yaml:"sha256"`
	Files    []File `yaml:"files"`
	Trees    []Tree `yaml:"trees"`
}

// File is one file that is kept, or a part of it.
type File struct {
	From       string `yaml:"from"`   // in the archive
	To         string `yaml:"to"`     // in the target folder
	Offset     int64  `yaml:"offset"` // where the part starts
	Size       int64  `yaml:"size"`   // of the part
	SHA256     string `yaml:"sha256"` // of the part
	Executable bool   `yaml:"executable"`
}

// Tree is a folder that is kept whole.
type Tree struct {
	From   string `yaml:"from"` // prefix in the archive, ends with /
	To     string `yaml:"to"`   // prefix in the target folder, ends with /
	Count  int    `yaml:"count"`
	Size   int64  `yaml:"size"`   // of all files together
	SHA256 string `yaml:"sha256"` // of the lines "SHA256  PATH", in order of path
}

// Catalogue is everything that can be installed, in the order of the list.
type Catalogue []Entry

// Pinned returns the catalogue of this build.
func Pinned() (Catalogue, error) { return ParseCatalogue(pinned) }

// ParseCatalogue reads a catalogue. Unknown keys, missing checksums and paths
// that leave the target folder are errors.
func ParseCatalogue(raw []byte) (Catalogue, error) {
	var c Catalogue
	if err := yaml.UnmarshalWithOptions(raw, &c, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("read the catalogue of engines: %w", err)
	}
	seen := map[string]bool{}
	for _, e := range c {
		if err := e.validate(); err != nil {
			return nil, fmt.Errorf("catalogue of engines: %s: %w", e.ID(), err)
		}
		if seen[e.ID()] {
			return nil, fmt.Errorf("catalogue of engines: %s is there twice", e.ID())
		}
		seen[e.ID()] = true
		for _, need := range e.Needs {
			if _, err := c.Find(need); err != nil {
				return nil, fmt.Errorf("catalogue of engines: %s: needs: %w", e.ID(), err)
			}
		}
	}
	return c, nil
}

// ID is NAME@VERSION.
func (e Entry) ID() string { return e.Name + "@" + e.Version }

// Find returns the entry that NAME or NAME@VERSION means: without a version the
// first of the list. An unknown name is an error that names the nearest ones.
func (c Catalogue) Find(name string) (Entry, error) {
	var names []string
	for _, e := range c {
		if name == e.Name || name == e.ID() {
			return e, nil
		}
		names = append(names, e.Name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if base, version, ok := strings.Cut(name, "@"); ok && slices.Contains(names, base) {
		return Entry{}, fmt.Errorf("%s is not in the catalogue of this version in version %q, there is %s", base, version, strings.Join(c.versions(base), ", "))
	}
	if near := executors.Nearest(name, names, 3); len(near) > 0 {
		return Entry{}, fmt.Errorf("there is nothing called %q to install, did you mean %s?", name, strings.Join(near, " or "))
	}
	return Entry{}, fmt.Errorf("there is nothing called %q to install, only %s", name, strings.Join(names, ", "))
}

func (c Catalogue) versions(name string) []string {
	var ids []string
	for _, e := range c {
		if e.Name == name {
			ids = append(ids, e.ID())
		}
	}
	return ids
}

// sources returns the archives for a processor. None is an error unless the
// distribution brings everything.
func (e Entry) sources(arch string) ([]Source, error) {
	var out []Source
	var has []string
	for _, s := range e.Sources {
		if s.Arch == "" || s.Arch == arch {
			out = append(out, s)
		}
		has = append(has, s.Arch)
	}
	if len(out) == 0 && len(e.Sources) > 0 {
		return nil, fmt.Errorf("%s is not published for %s, only for %s", e.ID(), arch, strings.Join(has, ", "))
	}
	return out, nil
}

// card returns the model.json of a model entry.
func (e Entry) card() (engines.Card, error) {
	fields := map[string]any{"name": e.Name, "revision": e.Version, "licence": e.Licence}
	var files []map[string]any
	var from []string
	all, err := e.sources(runtime.GOARCH)
	if err != nil {
		return engines.Card{}, err
	}
	for _, s := range all {
		from = append(from, s.From+" "+s.Package+" "+s.Version)
		for _, f := range s.Files {
			if !strings.Contains(f.To, "/") { // licences are not the model's
				files = append(files, map[string]any{"name": f.To, "sha256": f.SHA256, "size": f.Size})
			}
		}
	}
	fields["files"], fields["source"] = files, strings.Join(from, ", ")
	for k, v := range e.Card {
		fields[k] = v
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return engines.Card{}, fmt.Errorf("card of %s: %w", e.Name, err)
	}
	c, err := engines.ParseCard(raw)
	if err != nil {
		return engines.Card{}, fmt.Errorf("card of %s: %w", e.Name, err)
	}
	return c, nil
}

var (
	entryName  = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	hexSHA256  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	archive    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*\.(whl|tgz)$`)
	packageRef = regexp.MustCompile(`^(@[a-z0-9-]+/)?[a-z0-9][a-z0-9._-]*$`)
)

// validate reports everything that is wrong with an entry.
func (e Entry) validate() error {
	var problems []error
	unless := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	unless(entryName.MatchString(e.Name), "name: %q is not a name", e.Name)
	unless(entryName.MatchString(e.Version), "version: %q is not a version", e.Version)
	unless(slices.Contains([]Kind{KindEngine, KindModel, KindData}, e.Kind), "kind: must be engine, model or data, got %q", e.Kind)
	unless(e.About != "" && e.Licence != "", "about and licence are needed")
	unless(e.All == (e.Why == ""), "why: is needed where all is false, and only there")
	unless(e.Free || !e.All, "all: only what is free is installed unasked")
	unless(len(e.Sources)+len(e.System) > 0, "sources: nothing to install")
	for _, s := range e.System {
		unless(packageRef.MatchString(s.Package) && s.Have != "" && s.Disk > 0, "system: %q needs a name, have and disk", s.Package)
	}
	for _, s := range e.Sources {
		unless(s.From == FromPip || s.From == FromNpm, "from: must be pip or npm, got %q", s.From)
		unless(packageRef.MatchString(s.Package) && s.Version != "", "package: %q needs a name and a version", s.Package)
		unless(archive.MatchString(s.Archive) && s.Size > 0 && hexSHA256.MatchString(s.SHA256), "archive: %q needs a name, size and sha256", s.Archive)
		unless(s.From != FromPip || s.Platform != "", "platform: is needed by pip")
		for _, f := range s.Files {
			unless(inside(f.To) && f.From != "" && f.Size > 0 && f.Offset >= 0 && hexSHA256.MatchString(f.SHA256), "files: %q needs from, to, size and sha256", f.To)
		}
		for _, t := range s.Trees {
			unless(inside(t.To) && strings.HasSuffix(t.To, "/") && strings.HasSuffix(t.From, "/") && t.Count > 0 && t.Size > 0 && hexSHA256.MatchString(t.SHA256),
				"trees: %q needs from, to, count, size and sha256", t.To)
		}
	}
	unless((e.Kind == KindModel) == (e.Card != nil), "card: is needed by models, and only by them")
	if e.Card != nil {
		_, err := e.card()
		unless(err == nil, "%w", err)
	}
	return errors.Join(problems...)
}

// inside reports whether a slash-separated path stays in its folder and is
// written in its shortest form.
func inside(p string) bool {
	clean := path.Clean(p)
	return p != "" && clean != "." && clean != ".." && !path.IsAbs(p) && !strings.HasPrefix(clean, "../") &&
		strings.TrimSuffix(p, "/") == clean && !strings.ContainsAny(p, "\\\x00")
}
