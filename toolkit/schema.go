package toolkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolwire/toolwire/events"
)

// Schema validates the arguments of one definition. It is safe for concurrent use.
type Schema struct {
	name   events.ToolName
	input  *jsonschema.Schema
	output *jsonschema.Schema // nil: none
	raw    any                // the input schema, for pruning nulls
}

func newSchema(def Definition) (*Schema, error) {
	in, err := compile(def.InputSchema)
	if err != nil {
		return nil, fmt.Errorf("%w: tool %q: inputSchema: %w", ErrDefinition, def.Name, err)
	}
	s := &Schema{name: def.Name, input: in}
	if s.raw, err = jsonschema.UnmarshalJSON(bytes.NewReader(def.InputSchema)); err != nil {
		return nil, fmt.Errorf("%w: tool %q: inputSchema: %w", ErrDefinition, def.Name, err)
	}
	if len(def.OutputSchema) > 0 {
		if s.output, err = compile(def.OutputSchema); err != nil {
			return nil, fmt.Errorf("%w: tool %q: outputSchema: %w", ErrDefinition, def.Name, err)
		}
	}
	return s, nil
}

// Schemas compiles each definition once, by its hash. The zero value is ready; it is safe for
// concurrent use.
type Schemas struct{ byHash sync.Map }

// Of returns the schema of a definition whose hash is known.
func (s *Schemas) Of(hash string, def Definition) (*Schema, error) {
	if v, ok := s.byHash.Load(hash); ok {
		return v.(*Schema), nil //nolint:forcetypeassert,errcheck // only this method stores
	}
	schema, err := newSchema(def)
	if err != nil {
		return nil, err
	}
	v, _ := s.byHash.LoadOrStore(hash, schema)
	return v.(*Schema), nil //nolint:forcetypeassert,errcheck // only this method stores
}

// Prepare makes arguments ready to run: none, white space, "" and null become {}, and an object
// that came as a JSON string is unwrapped, once, which repaired tells. Any other byte stays as it
// was. Explicit nulls of optional fields count as absent, for validation only and where the schema
// does not take them as they are.
// The error is an [InputError] whose text tells the model what to correct.
func (s *Schema) Prepare(input json.RawMessage) (clean json.RawMessage, repaired bool, err error) {
	return s.prepare(input, nil)
}

// prepare is [Schema.Prepare] of input with presets in the place of what it says. Where a preset
// does not fit, the error is [Unavailable], and holds no value.
func (s *Schema) prepare(input json.RawMessage, presets map[string]json.RawMessage) (clean json.RawMessage, repaired bool, err error) {
	clean, repaired, err = Unwrap(input)
	if err == nil {
		clean, err = overlay(clean, presets)
	}
	var doc any
	if err == nil {
		doc, err = events.ReadJSON(clean)
	}
	if err != nil {
		return nil, false, s.refuse("the arguments are not valid JSON: " + text1(err))
	}
	if _, ok := doc.(map[string]any); !ok {
		return nil, false, s.refuse("the arguments must be a JSON object, not " + kindOf(doc))
	}
	if err := checkNumbers(doc); err != nil {
		return nil, false, s.refuse(err.Error())
	}
	err = s.input.Validate(doc)
	if err != nil && bytes.Contains(clean, []byte("null")) { // a null that the schema allows is a value
		err = s.input.Validate(prune(doc, []any{s.raw}, s.raw))
	}
	if err != nil {
		if name, preset := presetAt(err, presets); preset {
			return nil, false, Unavailable(fmt.Errorf("tool %q: the preset of %q does not fit the schema", s.name, name))
		}
		return nil, false, s.refuse(failures(err))
	}
	return clean, repaired, nil
}

// Output checks structured content; nil if there is no output schema.
func (s *Schema) Output(structured json.RawMessage) error {
	if s.output == nil {
		return nil
	}
	doc, err := events.ReadJSON(structured)
	if err != nil {
		return err
	}
	if err := checkNumbers(doc); err != nil {
		return err
	}
	if err := s.output.Validate(doc); err != nil {
		return errors.New(failures(err))
	}
	return nil
}

func (s *Schema) refuse(what string) error {
	return &InputError{Text: fmt.Sprintf("Input validation failed for tool '%s':\n%s\nCorrect the arguments and call again.", s.name, what)}
}

// text1 is one failure on one line. It may quote the arguments, so it is kept short.
func text1(err error) string {
	return shorten(strings.TrimPrefix(err.Error(), events.ErrMalformed.Error()+": "))
}

func shorten(s string) string {
	if len(s) <= maxFailure {
		return s
	}
	return strings.ToValidUTF8(s[:maxFailure], "") + " …"
}

// Unwrap turns the spellings of "no arguments" into {} and unwraps an object written as a JSON string,
// which repaired tells. All else is returned as it is, checked or not.
func Unwrap(input json.RawMessage) (clean json.RawMessage, repaired bool, err error) {
	none := json.RawMessage("{}")
	t := bytes.TrimSpace(input)
	switch {
	case len(t) == 0, string(t) == "null", string(t) == `""`:
		return none, false, nil
	case t[0] != '"':
		return input, false, nil
	}
	if err := events.CheckJSON(t); err != nil {
		return nil, false, err
	}
	var inner string
	if err := json.Unmarshal(t, &inner); err != nil {
		return nil, false, err
	}
	switch in := strings.TrimSpace(inner); {
	case in == "":
		return none, false, nil
	case in[0] == '{':
		return json.RawMessage(inner), true, nil
	}
	return input, false, nil // a string that holds no object: refused by its kind
}

func kindOf(doc any) string {
	switch doc.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case []any:
		return "an array"
	}
	return "a number"
}

// failures lists what does not fit, one per line as path: message, cut to a size that a model can
// use however large the arguments are.
func failures(err error) string {
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return shorten(err.Error())
	}
	var lines []string
	for _, leaf := range leaves(v, nil) {
		u := leaf.BasicOutput()
		if u.Error == nil && len(u.Errors) > 0 {
			u.Error = u.Errors[0].Error
		}
		if u.Error != nil {
			lines = append(lines, shorten(pointer(leaf.InstanceLocation)+": "+u.Error.String()))
		}
	}
	slices.Sort(lines) // the validator walks maps
	lines = slices.Compact(lines)
	if len(lines) == 0 {
		return shorten(v.Error())
	}
	if more := len(lines) - maxFailures; more > 0 {
		lines = append(lines[:maxFailures], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// pointer is the JSON pointer of what steps lead to, on one line whatever the names are; "/" for the root.
func pointer(steps []string) string {
	var b strings.Builder
	for _, name := range steps {
		b.WriteByte('/')
		for _, r := range name {
			switch {
			case r == '~':
				b.WriteString("~0")
			case r == '/':
				b.WriteString("~1")
			case unicode.IsControl(r):
				b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
			default:
				b.WriteRune(r)
			}
		}
	}
	if len(steps) == 0 {
		return "/"
	}
	return b.String()
}

const (
	maxFailures = 20  // lines
	maxFailure  = 400 // bytes of one
)

// leaves are the failures that have no cause of their own.
func leaves(v *jsonschema.ValidationError, all []*jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(v.Causes) == 0 {
		return append(all, v)
	}
	for _, c := range v.Causes {
		all = leaves(c, all)
	}
	return all
}
