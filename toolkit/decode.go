package toolkit

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// decode reads arguments that fit the schema into In, absent ones set to their defaults. Numbers
// that go into an interface keep all their digits, as json.Number.
func decode[In any](d *defaults, input json.RawMessage) (In, error) {
	var v In
	full, err := d.fill(input)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(full))
		dec.UseNumber()
		err = dec.Decode(&v)
	}
	if err != nil {
		return v, &InputError{Text: "The arguments do not fit the tool: " + strings.TrimPrefix(err.Error(), "json: ")}
	}
	return v, nil
}

// defaults are what decoding fills in for a value. Nil means nothing, at any depth.
type defaults struct {
	own  map[string]json.RawMessage // of members that are absent or null
	in   map[string]*defaults       // within members
	each *defaults                  // within each element, or each member not in the maps
}

// defaultsOf collects the defaults that a schema states; nil if there are none.
func defaultsOf(s *jsonschema.Schema) *defaults {
	if s == nil {
		return nil
	}
	d := defaults{own: map[string]json.RawMessage{}, in: map[string]*defaults{}}
	for name, p := range s.Properties {
		if p.Default != nil {
			d.own[name] = p.Default
		}
		if inner := defaultsOf(p); inner != nil {
			d.in[name] = inner
		}
	}
	if d.each = defaultsOf(s.Items); d.each == nil {
		d.each = defaultsOf(s.AdditionalProperties)
	}
	if len(d.own) == 0 && len(d.in) == 0 && d.each == nil {
		return nil
	}
	return &d
}

// fill returns raw with the defaults set. All that was given stays byte for byte.
func (d *defaults) fill(raw json.RawMessage) (json.RawMessage, error) {
	if d == nil {
		return raw, nil
	}
	switch t := bytes.TrimLeft(raw, " \t\r\n"); {
	case len(t) > 0 && t[0] == '{':
		return d.fillObject(raw)
	case len(t) > 0 && t[0] == '[' && d.each != nil:
		return d.fillList(raw)
	}
	return raw, nil
}

func (d *defaults) fillObject(raw json.RawMessage) (json.RawMessage, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, err
	}
	changed := false
	for name, v := range given {
		inner := d.in[name]
		if inner == nil {
			inner = d.each
		}
		full, err := inner.fill(v)
		if err != nil {
			return nil, err
		}
		given[name], changed = full, changed || len(full) != len(v)
	}
	for name, v := range d.own {
		if now, ok := given[name]; !ok || string(now) == "null" {
			given[name], changed = v, true
		}
	}
	if !changed {
		return raw, nil
	}
	b := []byte{'{'} // by hand: json.Marshal would rewrite what was given
	for _, name := range slices.Sorted(maps.Keys(given)) {
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, key...), ':'), given[name]...)
	}
	return append(b, '}'), nil
}

func (d *defaults) fillList(raw json.RawMessage) (json.RawMessage, error) {
	var given []json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, err
	}
	for i, v := range given {
		full, err := d.each.fill(v)
		if err != nil {
			return nil, err
		}
		given[i] = full
	}
	return slices.Concat([]byte{'['}, bytes.Join(toBytes(given), []byte{','}), []byte{']'}), nil
}

func toBytes(all []json.RawMessage) [][]byte {
	out := make([][]byte, len(all))
	for i, one := range all {
		out[i] = one
	}
	return out
}
