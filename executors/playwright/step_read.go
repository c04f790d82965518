package playwright

import (
	"fmt"
	"strings"

	"github.com/autobot-fleet/autobot/executors"
)

// Caps of what is read from a page.
const (
	maxText   = 1 << 20 // characters
	maxHTML   = 2 << 20
	maxFields = 50
	maxAll    = 1000 // elements of one field
)

// Each script returns the length and at most cap characters.
const (
	readText = `(e, cap) => { const t = String(e.innerText ?? e.textContent ?? ''); return [t.length, t.slice(0, cap)] }`
	readHTML = `(e, cap) => { const t = String(e.outerHTML); return [t.length, t.slice(0, cap)] }`
)

// textStep returns the visible text of an element, by default of the page.
type textStep struct {
	stepCommon
	target
}

func (s *textStep) check(c *stepCheck) error { return c.target(s.target, false) }

func (s *textStep) run(r *run) (any, error) { return r.read(s.target, "body", readText, maxText, s) }

// htmlStep returns the HTML of an element, by default of the page.
type htmlStep struct {
	stepCommon
	target
}

func (s *htmlStep) check(c *stepCheck) error { return c.target(s.target, false) }

func (s *htmlStep) run(r *run) (any, error) { return r.read(s.target, "html", readHTML, maxHTML, s) }

// read runs one of the scripts above on an element.
func (r *run) read(t target, otherwise, script string, limit int, s step) (string, error) {
	if t.Selector == "" {
		t.Selector = otherwise
	}
	limit = min(limit, r.room)
	answer, err := r.evaluateOn(t, script, limit, s)
	if err != nil {
		return "", err
	}
	pair, ok := answer.([]any)
	if !ok || len(pair) != 2 {
		return "", executors.Errorf(executors.CodeScriptError, "the page interferes with reading it")
	}
	text, ok := pair[1].(string)
	if !ok || len(text) > 4*limit+4 { // a page may have replaced slice
		return "", executors.Errorf(executors.CodeScriptError, "the page interferes with reading it")
	}
	if length := number(pair[0]); length > float64(limit) {
		r.warn("TRUNCATED", "%s: %.0f characters were cut to %d", r.where(), length, limit)
	}
	if len(text) > r.room { // a character may take several bytes
		text = strings.ToValidUTF8(text[:r.room], "")
		r.warn("TRUNCATED", "%s: the texts of the result together were cut to %d bytes", r.where(), maxRoom)
	}
	r.room -= len(text)
	return r.secrets.value(text), nil
}

// number reads a number as the library returns it.
func number(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

// attributeStep returns an attribute of an element, null when it has none.
type attributeStep struct {
	stepCommon
	target
	Attribute string `json:"attribute"`
}

func (s *attributeStep) check(c *stepCheck) error {
	return first(c.target(s.target, true), when(s.Attribute == "" || len(s.Attribute) > 128, c.at("attribute"), "is required, at most 128 characters"))
}

func (s *attributeStep) run(r *run) (any, error) { return r.attribute(s.target, s.Attribute, s) }

const readAttribute = `(e, a) => { const v = e.getAttribute(a[0]); return v === null ? null : v.slice(0, a[1]) }`

func (r *run) attribute(t target, name string, s step) (any, error) {
	answer, err := r.evaluateOn(t, readAttribute, []any{name, maxValue}, s)
	text, ok := answer.(string)
	if err != nil || !ok {
		return nil, err
	}
	return r.secrets.value(text[:min(len(text), 4*maxValue)]), nil
}

// A field of extract is a selector, or an object.
type field struct {
	Selector  string `json:"selector"`
	Attribute string `json:"attribute"` // "": the text
	HTML      bool   `json:"html"`      // the HTML in place of the text
	All       bool   `json:"all"`       // a list of all that match
	Optional  bool   `json:"optional"`  // null when nothing matches
}

// UnmarshalJSON reads a selector or an object.
func (f *field) UnmarshalJSON(raw []byte) error {
	if err := jsonString(raw, &f.Selector); err == nil {
		return nil
	}
	type plain field
	return strictObject(raw, (*plain)(f))
}

// extractStep reads several things at once.
type extractStep struct {
	stepCommon
	Fields map[string]field `json:"fields"`
}

func (s *extractStep) check(c *stepCheck) error {
	if len(s.Fields) == 0 || len(s.Fields) > maxFields {
		return executors.Invalid(c.at("fields"), "must have 1 to %d entries, got %d", maxFields, len(s.Fields))
	}
	for name, f := range s.Fields {
		at := c.at("fields." + name)
		err := first(
			when(!sessionGrammar.MatchString(name), c.at("fields"), "the name %.40q must match %s", name, sessionGrammar),
			when(f.Selector == "" || len(f.Selector) > maxSelector, at+".selector", "is required, at most %d characters", maxSelector),
			when(f.HTML && f.Attribute != "", at, "give one of html and attribute"),
			when(len(f.Attribute) > 128, at+".attribute", "must have at most 128 characters"),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *extractStep) run(r *run) (any, error) {
	data := make(map[string]any, len(s.Fields))
	for name, f := range s.Fields {
		value, err := r.extract(f, s)
		if err != nil {
			return nil, fieldError{name, f.Selector, err}
		}
		data[name] = value
	}
	return data, nil
}

// A fieldError is a failure to read one field.
type fieldError struct {
	name, selector string
	err            error
}

func (e fieldError) Error() string { return fmt.Sprintf("field %s: %v", e.name, e.err) }
func (e fieldError) Unwrap() error { return e.err }

func (r *run) extract(f field, s step) (any, error) {
	one := func(t target) (any, error) {
		switch {
		case f.Attribute != "":
			return r.attribute(t, f.Attribute, s)
		case f.HTML:
			return r.read(t, "", readHTML, maxHTML, s)
		}
		return r.read(t, "", readText, maxText, s)
	}
	t := target{Selector: f.Selector}
	if !f.All && !f.Optional {
		return one(t)
	}
	count := 0
	if err := r.bounded(s, func() (err error) {
		count, err = r.locate(t).Count()
		return err
	}); err != nil {
		return nil, err
	}
	if !f.All {
		if count == 0 {
			return nil, nil
		}
		return one(t)
	}
	if count > maxAll {
		r.warn("TRUNCATED", "%s: of %d elements the first %d were read", r.where(), count, maxAll)
	}
	all := make([]any, 0, min(count, maxAll))
	for i := range min(count, maxAll) {
		value, err := one(target{Selector: f.Selector, Nth: &i})
		if err != nil {
			return nil, err
		}
		all = append(all, value)
	}
	return all, nil
}
