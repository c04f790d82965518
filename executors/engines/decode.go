package engines

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/autobot-fleet/autobot/executors"
)

// maxCard bounds the card of a model.
const maxCard = 1 << 20

// ParseCard reads a model's card. Unknown fields, wrong types and values out of
// range are errors that name the field.
func ParseCard(raw []byte) (Card, error) {
	if len(raw) > maxCard {
		return Card{}, errors.New("the card is longer than 1 MiB")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var c Card
	if err := d.Decode(&c); err != nil {
		return Card{}, fieldOf(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Card{}, errors.New("there is something behind the end of the card")
	}
	if err := c.Validate(); err != nil {
		return Card{}, err
	}
	return c, nil
}

// Encode returns the card as it is written into model.json.
func (c Card) Encode() ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	raw, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the card of %s: %w", c.Name, err)
	}
	return append(raw, '\n'), nil
}

// fieldOf says what encoding/json means in the words of the card.
func fieldOf(err error) error {
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		if typ.Field == "" {
			return fmt.Errorf("the card must be a JSON object, got a %s", typ.Value)
		}
		return fmt.Errorf("%s: must be %s, got a %s", typ.Field, wording(typ.Type), typ.Value)
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("the card is not JSON: %w (at byte %d)", syntax, syntax.Offset)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		name = strings.Trim(name, `"`)
		hint := ""
		if near := executors.Nearest(name, cardFields(reflect.TypeFor[Card]()), 1); len(near) > 0 {
			hint = fmt.Sprintf(" (did you mean %s?)", near[0])
		}
		return fmt.Errorf("%s: a card has no such field%s", name, hint)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the card is not JSON: it ends too early")
	}
	return fmt.Errorf("read the card: %w", err)
}

func wording(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

// cardFields lists the names of all fields of a card.
func cardFields(t reflect.Type) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
		names = append(names, cardFields(t.Field(i).Type)...)
	}
	return names
}
