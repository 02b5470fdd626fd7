package toolkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolwire/toolwire/events"
)

// inferred is the input schema of a Go type, and the defaults that decoding fills in.
type inferred struct {
	schema   json.RawMessage
	defaults map[string]json.RawMessage // of the root's properties
}

func inputSchema[In any]() (inferred, error) {
	t := reflect.TypeFor[In]()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
		return inferred{}, fmt.Errorf("%s is no struct or map: a tool's arguments are a JSON object", t)
	}
	s, err := infer(t)
	if err != nil {
		return inferred{}, err
	}
	in := inferred{defaults: map[string]json.RawMessage{}}
	for name, p := range s.Properties {
		if p.Default != nil {
			in.defaults[name] = p.Default
		}
	}
	if s.Properties == nil {
		s.Properties = map[string]*jsonschema.Schema{}
	}
	in.schema, err = json.Marshal(s)
	return in, err
}

// outputSchema is the schema of a struct that is returned as it is; nil for anything else.
func outputSchema[Out any]() (json.RawMessage, error) {
	t := reflect.TypeFor[Out]()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	converts := t.Implements(reflect.TypeFor[Converter]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[Converter]())
	marshals := t.Implements(reflect.TypeFor[json.Marshaler]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[Result]() || t == reflect.TypeFor[time.Time]() || converts || marshals {
		return nil, nil
	}
	s, err := infer(t)
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

func infer(t reflect.Type) (*jsonschema.Schema, error) {
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {},
		reflect.TypeFor[events.Content]():  {Type: "object"},
		reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
		reflect.TypeFor[Duration]():        {Type: "string"},
		reflect.TypeFor[json.Number]():     {Type: "number"},
	}})
	if err != nil {
		return nil, err
	}
	return s, annotate(s, t)
}

// annotate applies our struct tags to the schema of t, at every level.
func annotate(s *jsonschema.Schema, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case s == nil:
		return nil
	case (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && s.Items != nil:
		plainType(s)
		return annotate(s.Items, t.Elem())
	case t.Kind() == reflect.Map && s.AdditionalProperties != nil:
		plainType(s)
		return annotate(s.AdditionalProperties, t.Elem())
	case t.Kind() != reflect.Struct || s.Properties == nil:
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		p := s.Properties[name]
		if !f.IsExported() || p == nil {
			continue
		}
		if err := tags(p, f); err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
		optional := f.Type.Kind() == reflect.Pointer || strings.Contains(opts, "omitempty") || strings.Contains(opts, "omitzero") || p.Default != nil
		if v, ok := f.Tag.Lookup("required"); ok {
			b, err := strconv.ParseBool(v)
			if err != nil {
				return fmt.Errorf("field %s: tag required: %w", f.Name, err)
			}
			optional = !b
		}
		s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == name })
		if !optional {
			s.Required = append(s.Required, name)
		}
		if f.Type.Kind() == reflect.Pointer {
			plainType(p)
		}
		if err := annotate(p, f.Type); err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
	}
	return nil
}

// plainType drops "null" from the types: an optional field is left out, and an explicit null of
// it counts as absent.
func plainType(s *jsonschema.Schema) {
	s.Types = slices.DeleteFunc(s.Types, func(t string) bool { return t == "null" })
	if len(s.Types) == 1 {
		s.Type, s.Types = s.Types[0], nil
	}
}

// tags applies the tags of one field.
func tags(p *jsonschema.Schema, f reflect.StructField) error {
	target := p
	if f.Type.Kind() == reflect.Slice && p.Items != nil {
		target = p.Items // limits and choices of a list are of its elements
	}
	for _, tag := range []string{"description", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern", "format", "default"} {
		v, ok := f.Tag.Lookup(tag)
		if !ok {
			continue
		}
		if err := apply(p, target, f.Type, tag, v); err != nil {
			return fmt.Errorf("tag %s:%q: %w", tag, v, err)
		}
	}
	return nil
}

func apply(p, target *jsonschema.Schema, t reflect.Type, tag, v string) (err error) {
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
		for one := range strings.SplitSeq(v, ",") {
			raw, lerr := literal(element(t), one)
			if lerr != nil {
				return lerr
			}
			target.Enum = append(target.Enum, raw)
		}
	}
	return err
}

func number(v string) (*float64, error) {
	f, err := strconv.ParseFloat(v, 64)
	return &f, err
}

func count(v string) (*int, error) {
	n, err := strconv.Atoi(v)
	if err == nil && n < 0 {
		err = errors.New("is negative")
	}
	return &n, err
}

func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// literal reads a tag's value as JSON of type t; a string needs no quotes.
func literal(t reflect.Type, v string) (json.RawMessage, error) {
	if element(t).Kind() == reflect.String && t.Kind() != reflect.Slice || t == reflect.TypeFor[time.Time]() {
		return json.Marshal(v)
	}
	if err := json.Unmarshal([]byte(v), reflect.New(t).Interface()); err != nil {
		return nil, fmt.Errorf("is no %s: %w", t, err)
	}
	return json.RawMessage(v), nil
}

// decode reads arguments that fit the schema into In, absent ones set to their defaults.
func decode[In any](in inferred, input json.RawMessage) (In, error) {
	var v In
	if len(in.defaults) > 0 {
		var err error
		if input, err = withDefaults(in.defaults, input); err != nil {
			return v, err
		}
	}
	dec := json.NewDecoder(bytes.NewReader(input))
	if reflect.TypeFor[In]().Kind() == reflect.Map {
		dec.UseNumber()
	}
	if err := dec.Decode(&v); err != nil {
		return v, &InputError{Text: "The arguments do not fit the tool: " + strings.TrimPrefix(err.Error(), "json: ")}
	}
	return v, nil
}

func withDefaults(defaults map[string]json.RawMessage, input json.RawMessage) (json.RawMessage, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(input, &given); err != nil {
		return nil, &InputError{Text: "The arguments are no JSON object."}
	}
	missing := false
	for name, v := range defaults {
		if raw, ok := given[name]; !ok || string(raw) == "null" {
			given[name], missing = v, true
		}
	}
	if !missing {
		return input, nil
	}
	return json.Marshal(given)
}
