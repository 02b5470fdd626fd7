package permission

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/toolwire/toolwire/events"
)

// arguments are the members of a call's arguments, and what the schema puts in the place of
// missing ones.
type arguments struct {
	values map[string]json.RawMessage
	known  map[string]property // of the schema
	broken bool                // no JSON object: nothing may be concluded
}

type property struct {
	Default json.RawMessage `json:"default"`
}

func readArguments(def Tool, input json.RawMessage) arguments {
	var a arguments
	if len(bytes.TrimSpace(input)) > 0 {
		a.broken = events.CheckJSON(input) != nil || json.Unmarshal(input, &a.values) != nil || a.values == nil
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(def.InputSchema, &schema) != nil { // without properties that can be read
		return a
	}
	a.known = make(map[string]property, len(schema.Properties))
	for name, raw := range schema.Properties {
		var p property
		if json.Unmarshal(raw, &p) != nil { // true and false are schemas too
			p = property{}
		}
		a.known[name] = p
	}
	return a
}

// raw is the named member or its default. It is not sure if another member has the same name but
// for its case: there are programs that would take that.
func (a arguments) raw(name string) (raw json.RawMessage, sure bool) {
	if a.broken {
		return nil, false
	}
	for k := range a.values {
		if k != name && strings.EqualFold(k, name) {
			return nil, false
		}
	}
	if raw, ok := a.values[name]; ok {
		return raw, true
	}
	return a.known[name].Default, true
}

// text is the named member if it is text; present is false for one that is missing or null.
func (a arguments) text(name string) (text string, present, sure bool) {
	raw, sure := a.raw(name)
	if !sure {
		return "", true, false
	}
	if len(raw) == 0 || string(raw) == "null" {
		return "", false, true
	}
	return text, true, json.Unmarshal(raw, &text) == nil
}

// texts is the named member if it is text or a list of texts.
func (a arguments) texts(name string) (texts []string, present, sure bool) {
	if text, present, sure := a.text(name); sure {
		return []string{text}, present, true
	}
	raw, sure := a.raw(name)
	if !sure {
		return nil, true, false
	}
	var list []*string
	if json.Unmarshal(raw, &list) != nil {
		return nil, true, false
	}
	for _, t := range list {
		if t == nil {
			return nil, true, false
		}
		texts = append(texts, *t)
	}
	return texts, true, true
}
