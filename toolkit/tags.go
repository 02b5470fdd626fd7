package toolkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// tags applies the struct tags of one field to its schema.
func tags(p *jsonschema.Schema, f field) error {
	target := p
	if p.Items != nil {
		target = p.Items // limits and choices of a list are of its elements
	}
	t := f.Type
	if f.quoted {
		t = reflect.TypeFor[string]()
	}
	for _, tag := range []string{"description", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern", "format", "default"} {
		v, ok := f.Tag.Lookup(tag)
		if !ok {
			continue
		}
		if err := apply(p, target, t, tag, v); err != nil {
			return fmt.Errorf("tag %s:%q: %w", tag, v, err)
		}
	}
	if p.Default == nil {
		return nil
	}
	if err := fitsSchema(p, p.Default); err != nil {
		return fmt.Errorf("tag default:%q: %w", f.Tag.Get("default"), err)
	}
	return nil
}

// requiredTag overrides whether the field is required, if it has that tag.
func requiredTag(f field, required *bool) error {
	v, ok := f.Tag.Lookup("required")
	if !ok {
		return nil
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		return fmt.Errorf("tag required:%q: is neither true nor false", v)
	}
	*required = b
	return nil
}

func apply(p, target *jsonschema.Schema, t reflect.Type, tag, v string) (err error) {
	switch tag {
	case "pattern", "format", "minLength", "maxLength":
		err = only(target, "is for text", "string")
	case "minimum", "maximum":
		err = only(target, "is for numbers", "number", "integer")
	}
	if err != nil {
		return err
	}
	switch tag {
	case "description":
		p.Description = v
	case "pattern":
		if _, err = pattern(v); err == nil {
			target.Pattern = v
		}
	case "format":
		target.Format = v
	case "minimum":
		target.Minimum, err = number(v)
	case "maximum":
		target.Maximum, err = number(v)
	case "minLength":
		target.MinLength, err = count(v)
	case "maxLength":
		target.MaxLength, err = count(v)
	case "default":
		p.Default, err = literal(t, v)
	case "enum":
		target.Enum, err = choices(target, element(t), v)
	}
	return err
}

// only refuses a limit that values of the schema's type never meet: JSON Schema would ignore it.
// A schema that allows any type may have it.
func only(target *jsonschema.Schema, what string, types ...string) error {
	has := target.Types
	if target.Type != "" {
		has = []string{target.Type}
	}
	if len(has) == 0 || slices.ContainsFunc(types, func(t string) bool { return slices.Contains(has, t) }) {
		return nil
	}
	return fmt.Errorf("%s, and this is %s", what, strings.Join(has, " or "))
}

// choices reads the values of an enum, between commas.
func choices(target *jsonschema.Schema, t reflect.Type, v string) ([]any, error) {
	var all []any
	for one := range strings.SplitSeq(v, ",") {
		raw, err := literal(t, one)
		if err != nil {
			return nil, err
		}
		all = append(all, raw)
	}
	if slices.Contains(target.Types, "null") {
		all = append(all, nil)
	}
	return all, nil
}

func number(v string) (*float64, error) {
	f, err := strconv.ParseFloat(v, 64)
	if err != nil {
		return nil, errors.New("is no number")
	}
	return &f, nil
}

func count(v string) (*int, error) {
	n, err := strconv.Atoi(v)
	switch {
	case err != nil:
		return nil, errors.New("is no whole number")
	case n < 0:
		return nil, errors.New("is negative")
	}
	return &n, nil
}

func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// literal reads a tag's value as JSON of type t; what JSON has as a string needs no quotes.
func literal(t reflect.Type, v string) (json.RawMessage, error) {
	raw := json.RawMessage(v)
	if isText(indirect(t)) {
		quoted, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		raw = quoted
	}
	if err := json.Unmarshal(raw, reflect.New(t).Interface()); err != nil {
		return nil, fmt.Errorf("is no %s: %w", t, err)
	}
	return raw, nil
}

// isText says whether JSON has t as a string.
func isText(t reflect.Type) bool {
	if s := special(t); s != nil {
		return s.Type == "string"
	}
	return t.Kind() == reflect.String
}
