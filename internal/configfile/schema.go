package configfile

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// schema is what one struct, and the structs inside it, accept.
type schema struct {
	prefix string
	value  reflect.Value // addressable struct
	order  []string      // names of leaves and sub-sections as declared
	fields map[string]field
	remain reflect.Value // map[string]map[string]any, or invalid

	leaves map[string]field   // of this struct and below, by full key
	subs   map[string]*schema // sections directly below, by name
}

// field is a place for a value that is no section.
type field struct {
	key    string
	value  reflect.Value
	secret string // "", "true" or "url"
	path   bool
}

var (
	durationType    = reflect.TypeFor[time.Duration]()
	unmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
	remainType      = reflect.TypeFor[map[string]map[string]any]()
)

// newSchema describes the struct v, whose keys start with prefix.
func newSchema(v reflect.Value, prefix string) (*schema, error) {
	s := &schema{
		prefix: prefix, value: v,
		fields: map[string]field{}, leaves: map[string]field{}, subs: map[string]*schema{},
	}
	if err := s.addFields(v); err != nil {
		return nil, err
	}
	for _, sub := range s.subs {
		for key, leaf := range sub.leaves {
			s.leaves[key] = leaf
		}
	}
	return s, nil
}

func (s *schema) addFields(v reflect.Value) error {
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		name, options, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		if !sf.IsExported() || name == "-" {
			continue
		}
		var err error
		switch {
		case options == "inline":
			err = s.addFields(v.Field(i))
		case options == "remain":
			if sf.Type != remainType {
				return fmt.Errorf("field %s.%s: a remain field must be a %v", v.Type(), sf.Name, remainType)
			}
			s.remain = v.Field(i)
		default:
			if name == "" {
				name = strings.ToLower(sf.Name)
			}
			err = s.addField(name, sf, v.Field(i))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) addField(name string, sf reflect.StructField, v reflect.Value) error {
	key := joinKey(s.prefix, name)
	if _, twice := s.fields[name]; twice || s.subs[name] != nil {
		return fmt.Errorf("key %q is declared twice", key)
	}
	s.order = append(s.order, name)
	if isSection(sf.Type) {
		sub, err := newSchema(v, key)
		if err != nil {
			return err
		}
		s.subs[name] = sub
		return nil
	}
	if !supported(sf.Type) {
		return fmt.Errorf("key %q: fields of type %v cannot be read from a file", key, sf.Type)
	}
	f := field{key: key, value: v, secret: sf.Tag.Get("secret"), path: sf.Tag.Get("path") == "true"}
	s.fields[name] = f
	s.leaves[key] = f
	return nil
}

// isSection reports whether t is a struct that is filled key by key.
func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(unmarshalerType)
}

// supported reports whether values of type t can be read.
func supported(t reflect.Type) bool {
	if reflect.PointerTo(t).Implements(unmarshalerType) {
		return true
	}
	switch t.Kind() {
	case reflect.Slice:
		return supported(t.Elem())
	case reflect.Map:
		return t.Key().Kind() == reflect.String && supported(t.Elem())
	case reflect.Pointer:
		return !isSection(t.Elem()) && supported(t.Elem())
	case reflect.Struct:
		_, err := newSchema(reflect.New(t).Elem(), "")
		return err == nil
	case reflect.Interface:
		return t.NumMethod() == 0
	case reflect.String, reflect.Bool, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	default:
		return false
	}
}

// sections returns s and all sections below it, in the order of declaration.
func (s *schema) sections() []*schema {
	all := []*schema{s}
	for _, name := range s.order {
		if sub := s.subs[name]; sub != nil {
			all = append(all, sub.sections()...)
		}
	}
	return all
}

// splitRemain splits a key such as executors.tts.voice, which belongs to the
// remain field of the section executors, into that section, the name of the
// sub-section and the key within it.
func (s *schema) splitRemain(key string) (section *schema, name, sub string, ok bool) {
	for _, sec := range s.sections() {
		rest, below := strings.CutPrefix(key, sec.prefix+".")
		if sec.prefix == "" {
			rest, below = key, true
		}
		if !sec.remain.IsValid() || !below {
			continue
		}
		name, sub, ok = strings.Cut(rest, ".")
		if _, known := sec.fields[name]; ok && !known && sec.subs[name] == nil {
			return sec, name, sub, true
		}
	}
	return nil, "", "", false
}
