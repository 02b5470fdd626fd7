package toolkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolwire/toolwire/events"
)

// member is one name and value of a JSON object, the value byte for byte.
type member struct {
	name  string
	value json.RawMessage
}

// object is a JSON object as it was written, in its order.
type object []member

func readObject(raw json.RawMessage) (object, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("no JSON object")
	}
	var o object
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, ok := t.(string)
		if !ok {
			return nil, errors.New("no JSON object")
		}
		m := member{name: name}
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		o = append(o, m)
	}
	return o, nil
}

// bytes writes the object again, without the white space between its members.
func (o object) bytes() json.RawMessage {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, quote(m.name)...), ':'), m.value...)
	}
	return append(b, '}')
}

func quote(s string) []byte {
	b, err := events.Marshal(s)
	if err != nil { // a string always has a JSON form
		return []byte(`""`)
	}
	return b
}

func (o object) get(name string) json.RawMessage {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// set puts a value in the place of the one there, or at the end.
func (o object) set(name string, value json.RawMessage) object {
	for i := range o {
		if o[i].name == name {
			o[i].value = value
			return o
		}
	}
	return append(o, member{name, value})
}

func (o object) without(drop func(name string) bool) object {
	return slices.DeleteFunc(o, func(m member) bool { return drop(m.name) })
}

// overlay puts presets in the place of what the arguments say, and leaves every other value as it
// was written. They come last, so that a decoder that is careless with upper and lower case takes them
// too. Arguments that are no object stay as they are, for the schema to refuse.
func overlay(input json.RawMessage, presets map[string]json.RawMessage) (json.RawMessage, error) {
	if len(presets) == 0 {
		return input, nil
	}
	if err := events.CheckJSON(input); err != nil {
		return nil, err
	}
	o, err := readObject(input)
	if err != nil {
		return input, nil //nolint:nilerr // refused by its kind later
	}
	o = o.without(func(name string) bool { _, preset := presets[name]; return preset })
	for _, name := range slices.Sorted(maps.Keys(presets)) {
		o = append(o, member{name, presets[name]})
	}
	return o.bytes(), nil
}

// presetAt says whether a failure lies within a preset, and in which.
func presetAt(err error, presets map[string]json.RawMessage) (name string, ok bool) {
	var v *jsonschema.ValidationError
	if len(presets) == 0 || !errors.As(err, &v) {
		return "", false
	}
	for _, leaf := range leaves(v, nil) {
		if at := leaf.InstanceLocation; len(at) > 0 {
			if _, ok := presets[at[0]]; ok {
				return at[0], true
			}
		}
	}
	return "", false
}
