package toolkit

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolwire/toolwire/events"
)

// inferrer makes the schema of a Go type as encoding/json reads it, or writes it.
//
// The direction matters for null. An argument that may be left out is, and an explicit null of it
// counts as absent, so schemas of arguments do not mention null. A result is written with null
// for a nil pointer, slice or map, so schemas of results allow it.
type inferrer struct {
	output bool
	within []reflect.Type // named types around, to see one that contains itself
}

func inputSchema[In any]() (json.RawMessage, *defaults, error) {
	t := indirect(reflect.TypeFor[In]())
	if t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
		return nil, nil, fmt.Errorf("%s is no struct or map: a tool's arguments are a JSON object", t)
	}
	s, err := new(inferrer).kind(t)
	if err != nil {
		return nil, nil, err
	}
	b, err := json.Marshal(s)
	return b, defaultsOf(s), err
}

// outputSchema is the schema of a struct that is returned as it is; nil for anything else.
func outputSchema[Out any]() (json.RawMessage, error) {
	t := indirect(reflect.TypeFor[Out]())
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[Result]() || either[Converter](t) || special(t) != nil {
		return nil, nil
	}
	s, err := (&inferrer{output: true}).kind(t)
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

func indirect(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// either says whether t or a pointer to it has the methods of I.
func either[I any](t reflect.Type) bool {
	i := reflect.TypeFor[I]()
	return t.Implements(i) || reflect.PointerTo(t).Implements(i)
}

// special is the schema of a type that encoding/json does not write by its kind; nil for others.
func special(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "integer", Description: "nanoseconds"}
	case reflect.TypeFor[json.Number]():
		return &jsonschema.Schema{Type: "number"}
	case reflect.TypeFor[big.Int]():
		return &jsonschema.Schema{Type: "integer"}
	case reflect.TypeFor[events.Content]():
		return &jsonschema.Schema{Type: "object"}
	}
	switch {
	case t.Kind() == reflect.Interface:
		return &jsonschema.Schema{}
	case either[json.Marshaler](t), either[json.Unmarshaler](t):
		return &jsonschema.Schema{} // whatever it makes of itself
	case either[encoding.TextMarshaler](t), either[encoding.TextUnmarshaler](t):
		return &jsonschema.Schema{Type: "string"}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && special(t.Elem()) == nil:
		return &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
	}
	return nil
}

// value is the schema of a value of type t.
func (in *inferrer) value(t reflect.Type) (s *jsonschema.Schema, err error) {
	inner := indirect(t)
	if inner.Kind() == reflect.Interface && inner.NumMethod() > 0 && !in.output {
		return nil, fmt.Errorf("%s is an interface: no JSON can be read into it", inner)
	}
	if s = special(inner); s == nil {
		if s, err = in.kind(inner); err != nil {
			return nil, err
		}
	}
	nillable := t.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map
	if in.output && nillable && s.Type != "" {
		s.Type, s.Types = "", []string{"null", s.Type}
	}
	return s, nil
}

// kind is the schema of t by its kind, whatever methods it has.
func (in *inferrer) kind(t reflect.Type) (*jsonschema.Schema, error) {
	if t.Name() != "" {
		if slices.Contains(in.within, t) {
			return nil, fmt.Errorf("%s contains itself: write its schema by hand, and make the tool with Raw", t)
		}
		in.within = append(in.within, t)
		defer func() { in.within = in.within[:len(in.within)-1] }()
	}
	switch k := t.Kind(); k {
	case reflect.Bool:
		return &jsonschema.Schema{Type: "boolean"}, nil
	case reflect.String:
		return &jsonschema.Schema{Type: "string"}, nil
	case reflect.Float32, reflect.Float64:
		return &jsonschema.Schema{Type: "number"}, nil
	case reflect.Int8, reflect.Int16, reflect.Int32:
		most := math.Ldexp(1, t.Bits()-1)
		return &jsonschema.Schema{Type: "integer", Minimum: new(-most), Maximum: new(most - 1)}, nil
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return &jsonschema.Schema{Type: "integer", Minimum: new(0.0), Maximum: new(math.Ldexp(1, t.Bits()) - 1)}, nil
	case reflect.Int, reflect.Int64:
		return &jsonschema.Schema{Type: "integer"}, nil
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return &jsonschema.Schema{Type: "integer", Minimum: new(0.0)}, nil
	case reflect.Slice, reflect.Array, reflect.Map:
		return in.collection(t)
	case reflect.Struct:
		return in.object(t)
	default:
		return nil, fmt.Errorf("%s has no JSON form", t)
	}
}

func (in *inferrer) collection(t reflect.Type) (*jsonschema.Schema, error) {
	elem, err := in.value(t.Elem())
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case reflect.Map:
		k := t.Key().Kind()
		if k != reflect.String && (k < reflect.Int || k > reflect.Uintptr) && !either[encoding.TextMarshaler](t.Key()) {
			return nil, fmt.Errorf("%s: its keys are no names of a JSON object", t)
		}
		return &jsonschema.Schema{Type: "object", AdditionalProperties: elem}, nil
	case reflect.Array:
		return &jsonschema.Schema{Type: "array", Items: elem, MinItems: new(t.Len()), MaxItems: new(t.Len())}, nil
	default:
		return &jsonschema.Schema{Type: "array", Items: elem}, nil
	}
}

func (in *inferrer) object(t reflect.Type) (*jsonschema.Schema, error) {
	s := &jsonschema.Schema{
		Type: "object", Properties: map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}, // false
	}
	for _, f := range fields(t) {
		p, required, err := in.property(f)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", f.Name, err)
		}
		s.Properties[f.name], s.PropertyOrder = p, append(s.PropertyOrder, f.name)
		if required {
			s.Required = append(s.Required, f.name)
		}
	}
	return s, nil
}

func (in *inferrer) property(f field) (p *jsonschema.Schema, required bool, err error) {
	if p, err = in.value(f.Type); err != nil {
		return nil, false, err
	}
	if f.omitted { // rather than null
		p.Types = slices.DeleteFunc(p.Types, func(t string) bool { return t == "null" })
		if len(p.Types) == 1 {
			p.Type, p.Types = p.Types[0], nil
		}
	}
	if f.quoted {
		p = &jsonschema.Schema{Type: "string"}
	}
	if err = tags(p, f); err != nil {
		return nil, false, err
	}
	required = !f.omitted && (in.output || f.Type.Kind() != reflect.Pointer && p.Default == nil)
	return p, required, requiredTag(f, &required)
}
