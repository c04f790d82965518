package configfile

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// origin is where the values being assigned come from.
type origin struct {
	at   place
	dir  string // relative paths start here; empty means the working directory
	text bool   // a variable or flag, where "a, b" is a list
}

// on returns the place of n within the origin.
func (o origin) on(n *node) place {
	if o.at.label == "" {
		o.at.line, o.at.column = n.line, n.column
	}
	return o.at
}

// errMasked stands for a conversion error whose text could quote a secret.
var errMasked = errors.New("has a value of the wrong kind (not shown, it is a secret)")

// assignStruct fills the section s from n.
func (l *loader) assignStruct(s *schema, n *node, o origin) {
	if n.kind == nullNode {
		return
	}
	if n.kind != mapNode {
		l.problem(o.on(n), s.prefix, "must be a section with keys below it (%s)", strings.Join(s.order, ", "))
		return
	}
	for _, p := range n.pairs {
		key := joinKey(s.prefix, p.key)
		f, isLeaf := s.fields[p.key]
		switch sub := s.subs[p.key]; {
		case sub != nil:
			l.sources[key] = o.on(p.at)
			l.assignStruct(sub, p.value, o)
		case isLeaf:
			l.assignField(f, p.value, o, o.on(p.at))
		case s.remain.IsValid() && (p.value.kind == mapNode || p.value.kind == nullNode):
			l.sources[key] = o.on(p.at)
			l.assignRemain(s, p.key, p.value, o)
		default:
			l.problem(o.on(p.at), key, "unknown key%s", l.schema.hint(key))
		}
	}
}

// assignField sets one value and notes where it came from.
func (l *loader) assignField(f field, n *node, o origin, at place) {
	if n.kind == nullNode {
		return
	}
	fresh := reflect.New(f.value.Type()).Elem()
	a := assigner{l: l, field: f, origin: o}
	before := len(l.problems)
	if err := a.assign(fresh, n, f.key); err != nil {
		if f.secret != "" {
			err = errMasked
		}
		l.problem(o.on(n), f.key, "%v", err)
		return
	}
	if len(l.problems) > before {
		return
	}
	f.value.Set(fresh)
	for key := range l.sources { // of elements that an earlier layer had
		if strings.HasPrefix(key, f.key+"[") || strings.HasPrefix(key, f.key+".") {
			delete(l.sources, key)
		}
	}
	maps.Copy(l.sources, a.sources)
	l.sources[f.key] = at
}

// assignText sets one value from a variable or flag.
func (l *loader) assignText(f field, key, text string, o origin) {
	n, err := textNode(f.value.Type(), text)
	if err != nil {
		l.problem(o.at, key, "%v", err)
		return
	}
	l.assignField(f, n, o, o.at)
}

// textNode reads text as a value of type t. Lists may be "a, b" and maps
// "k=v, l=w"; both, and everything nested, may also be in YAML's [] and {}.
func textNode(t reflect.Type, text string) (*node, error) {
	scalar := &node{kind: scalarNode, text: text}
	isList, isMap := t.Kind() == reflect.Slice, t.Kind() == reflect.Map
	trimmed := strings.TrimSpace(text)
	if reflect.PointerTo(t).Implements(unmarshalerType) && !(isList && strings.HasPrefix(trimmed, "[")) {
		return scalar, nil
	}
	if t.Kind() == reflect.Interface {
		return textAny(text), nil
	}
	if (isList || isMap) && (strings.HasPrefix(trimmed, "[") || strings.HasPrefix(trimmed, "{")) {
		root, problems := parseYAML("", []byte("value: "+trimmed))
		if len(problems) > 0 || root == nil || len(root.pairs) != 1 {
			return nil, errors.New("is no valid YAML list or map")
		}
		return root.pairs[0].value, nil
	}
	if !isList && !isMap {
		return scalar, nil
	}
	out := &node{kind: listNode}
	if isMap {
		out.kind = mapNode
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if isList {
			out.items = append(out.items, &node{kind: scalarNode, text: part})
			continue
		}
		k, v, ok := strings.Cut(part, "=")
		if !ok {
			return nil, errors.New("must be a list of name=value, separated by commas")
		}
		value := &node{kind: scalarNode, text: strings.TrimSpace(v)}
		out.pairs = append(out.pairs, pair{key: strings.TrimSpace(k), at: out, value: value})
	}
	return out, nil
}

// assigner sets one field and what is inside it.
type assigner struct {
	l       *loader
	field   field
	origin  origin
	sources map[string]place // of what is inside
}

func (a *assigner) assign(v reflect.Value, n *node, key string) error {
	t := v.Type()
	// A list with UnmarshalText may be written as one text or as a list.
	if reflect.PointerTo(t).Implements(unmarshalerType) && !(t.Kind() == reflect.Slice && n.kind == listNode) {
		return a.unmarshal(v, n)
	}
	switch t.Kind() {
	case reflect.Slice:
		return a.assignSlice(v, n, key)
	case reflect.Map:
		return a.assignMap(v, n, key)
	case reflect.Struct:
		return a.assignElement(v, n, key)
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		return a.assign(v.Elem(), n, key)
	case reflect.Interface:
		v.Set(reflect.ValueOf(n.any()))
		return nil
	}
	if n.kind != scalarNode {
		return errors.New("must be a single value, not a list or section")
	}
	if err := setScalar(v, n.text); err != nil {
		return err
	}
	if a.field.path && t.Kind() == reflect.String {
		return a.resolvePath(v)
	}
	return nil
}

func (a *assigner) unmarshal(v reflect.Value, n *node) error {
	if n.kind != scalarNode {
		return errors.New("must be a single value, not a list or section")
	}
	u, ok := v.Addr().Interface().(encoding.TextUnmarshaler)
	if !ok {
		return fmt.Errorf("fields of type %v cannot be read", v.Type())
	}
	return u.UnmarshalText([]byte(n.text))
}

func (a *assigner) assignSlice(v reflect.Value, n *node, key string) error {
	if n.kind != listNode {
		return errors.New("must be a list, for example [a, b] or one \"- a\" per line")
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
	for i, item := range n.items {
		elem := fmt.Sprintf("%s[%d]", key, i)
		a.note(elem, item)
		a.assignInside(v.Index(i), item, elem)
	}
	return nil
}

func (a *assigner) assignMap(v reflect.Value, n *node, key string) error {
	if n.kind != mapNode {
		return errors.New("must be a section of name: value")
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.pairs)))
	for _, p := range n.pairs {
		elem := reflect.New(v.Type().Elem()).Elem()
		inside := joinKey(key, p.key)
		a.note(inside, p.at)
		if p.value.kind != nullNode || elem.Kind() == reflect.Struct || elem.Kind() == reflect.Interface {
			a.assignInside(elem, p.value, inside)
		}
		v.SetMapIndex(reflect.ValueOf(p.key).Convert(v.Type().Key()), elem)
	}
	return nil
}

// assignInside sets an element, whose problems have a place of their own.
func (a *assigner) assignInside(v reflect.Value, n *node, key string) {
	if n.kind == nullNode && v.Kind() != reflect.Struct && v.Kind() != reflect.Interface {
		a.l.problem(a.origin.on(n), key, "has no value")
		return
	}
	if err := a.assign(v, n, key); err != nil {
		if a.field.secret != "" {
			err = errMasked
		}
		a.l.problem(a.origin.on(n), key, "%v", err)
	}
}

// assignElement fills a struct that is an element of a list or map.
func (a *assigner) assignElement(v reflect.Value, n *node, key string) error {
	s, err := newSchema(v, key)
	if err != nil {
		return err
	}
	sub := &loader{schema: s}
	sub.sources = map[string]place{}
	sub.assignStruct(s, n, a.origin)
	a.l.problems = append(a.l.problems, sub.problems...)
	for k, p := range sub.sources {
		a.put(k, p)
	}
	return nil
}

func (a *assigner) note(key string, n *node) { a.put(key, a.origin.on(n)) }

func (a *assigner) put(key string, p place) {
	if a.sources == nil {
		a.sources = map[string]place{}
	}
	a.sources[key] = p
}

// resolvePath makes a relative path absolute: relative to the file that it
// stands in, else to the working directory.
func (a *assigner) resolvePath(v reflect.Value) error {
	path, err := resolvePath(v.String(), a.origin.dir)
	if err != nil {
		return err
	}
	v.SetString(path)
	return nil
}

func resolvePath(path, dir string) (string, error) {
	if path == "" || filepath.IsAbs(path) {
		return path, nil
	}
	if strings.HasPrefix(path, "~") {
		return "", errors.New("must not start with ~, which is not expanded; write the whole path")
	}
	abs, err := filepath.Abs(filepath.Join(dir, path))
	if err != nil {
		return "", fmt.Errorf("cannot be made an absolute path: %w", err)
	}
	return abs, nil
}

// assignRemain merges an unknown sub-section into the remain field of s.
func (l *loader) assignRemain(s *schema, name string, n *node, o origin) {
	if s.remain.IsNil() {
		s.remain.Set(reflect.MakeMap(remainType))
	}
	all, _ := s.remain.Interface().(map[string]map[string]any)
	section := maps.Clone(all[name])
	if section == nil {
		section = map[string]any{}
	}
	prefix := joinKey(s.prefix, name)
	for _, p := range n.pairs {
		if p.value.kind == nullNode {
			continue
		}
		section[p.key] = merge(section[p.key], p.value.any())
		l.sources[joinKey(prefix, p.key)] = o.on(p.at)
	}
	all[name] = section
}

// assignRemainText sets one value of an unknown sub-section from a flag or
// variable; sub may have dots.
func (l *loader) assignRemainText(s *schema, name, sub, text string, o origin) {
	value := textAny(text)
	parts := strings.Split(sub, ".")
	for _, part := range slices.Backward(parts) {
		value = &node{kind: mapNode, pairs: []pair{{key: part, at: &node{}, value: value}}}
	}
	l.assignRemain(s, name, value, o)
}

// merge lays over on base: maps key by key, everything else as a whole.
func merge(base, over any) any {
	b, isMap := base.(map[string]any)
	o, alsoMap := over.(map[string]any)
	if !isMap || !alsoMap {
		return over
	}
	out := maps.Clone(b)
	for k, v := range o {
		out[k] = merge(out[k], v)
	}
	return out
}
