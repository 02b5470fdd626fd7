package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// field is one property of the result that a question asks for.
type field struct {
	Name, Label, Help string
	Kind              string   // string, text, integer, number, boolean, choice
	Choices           []string // as JSON, of a choice
	Required          bool
	Value             string // as typed
}

// ID is that of its input.
func (f field) ID() string { return "field-" + events.Token(f.Name) }

// Input is the name of its input.
func (f field) Input() string { return "f." + f.Name }

// property is what is read of a schema's property.
type property struct {
	Type        string            `json:"type"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Enum        []json.RawMessage `json:"enum"`
	MaxLength   *int              `json:"maxLength"`
}

const maxFields = 30

// fields makes a form of a schema whose properties are all simple; nil: it has others.
func fields(schema json.RawMessage) []field {
	var s struct {
		Type       string          `json:"type"`
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if len(schema) == 0 || json.Unmarshal(schema, &s) != nil || s.Type != "object" || len(s.Properties) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(s.Properties))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var out []field
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil
		}
		name, _ := key.(string)
		var p property
		if dec.Decode(&p) != nil || len(out) == maxFields {
			return nil
		}
		f, ok := newField(name, p)
		if !ok {
			return nil
		}
		for _, r := range s.Required {
			f.Required = f.Required || r == name
		}
		out = append(out, f)
	}
	return out
}

func newField(name string, p property) (field, bool) {
	f := field{Name: name, Label: p.Title, Help: p.Description, Kind: p.Type}
	if f.Label == "" {
		f.Label = name
	}
	switch {
	case len(p.Enum) > 0:
		f.Kind = "choice"
		for _, v := range p.Enum {
			f.Choices = append(f.Choices, string(v))
		}
	case p.Type == "string" && (p.MaxLength == nil || *p.MaxLength > 100):
		f.Kind = "text"
	case p.Type == "string", p.Type == "integer", p.Type == "number", p.Type == "boolean":
	default:
		return f, false
	}
	return f, true
}

// Says is what a choice means, for people.
func (field) Says(choice string) string {
	var s string
	if json.Unmarshal([]byte(choice), &s) == nil && s != "" {
		return s
	}
	return choice
}

// fill takes what was typed, and makes the object of it.
func fill(all []field, form url.Values) (json.RawMessage, error) {
	for i := range all { // all of it is kept, whatever is wrong with some of it
		all[i].Value = typed(form.Get(all[i].Input()))
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for i := range all {
		f := all[i]
		v, err := f.value()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Label, err)
		}
		if v == nil {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(f.Name)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// value is what was typed, as JSON; nil: nothing was, and nothing has to be.
func (f field) value() (json.RawMessage, error) {
	if f.Value == "" && (!f.Required || f.Kind != "string" && f.Kind != "text") {
		if f.Required {
			return nil, fmt.Errorf("%w: a value is needed", errTyped)
		}
		return nil, nil
	}
	switch f.Kind {
	case "choice":
		for _, c := range f.Choices {
			if c == f.Value {
				return json.RawMessage(c), nil
			}
		}
		return nil, fmt.Errorf("%w: none of the choices", errTyped)
	case "integer", "number":
		var n json.Number
		if err := json.Unmarshal([]byte(f.Value), &n); err != nil || strings.HasPrefix(f.Value, `"`) || f.Kind == "integer" && strings.ContainsAny(n.String(), ".eE") {
			return nil, fmt.Errorf("%w: %q is no %s", errTyped, f.Value, f.Kind)
		}
		return json.RawMessage(n.String()), nil
	case "boolean":
		v, err := strconv.ParseBool(f.Value)
		if err != nil {
			return nil, fmt.Errorf("%w: neither yes nor no", errTyped)
		}
		return json.Marshal(v)
	}
	return json.Marshal(f.Value)
}

// asked is what ask_user asks.
type asked struct {
	Question string   `json:"question"`
	Options  []string `json:"options"`
}

func askedUser(q events.Question) *asked {
	var a asked
	if q.Call.Name != toolkit.AskUser || q.Kind != events.KindExternal || json.Unmarshal(q.Call.Input, &a) != nil || a.Question == "" {
		return nil
	}
	return &a
}
