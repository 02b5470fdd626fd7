package toolkit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/toolwire/toolwire/events"
)

// Runnable is the definition by which a worker runs the tool: with the timeout and attempts of the
// tuning, and its extended properties merged into the input schema. Presets are in it: what runs has
// them. [ErrConfig] says what does not fit the tool.
//
// Of the extended schema count properties, required, $defs and definitions; what describes it is
// left out, and so is its additionalProperties: the tool's own holds.
func (d Definition) Runnable(t Tuning) (Definition, error) {
	if t.Timeout < 0 || t.Attempts < 0 {
		return d, d.misfit("timeout or attempts is negative")
	}
	if t.Timeout > 0 {
		d.Timeout = t.Timeout
	}
	if t.Attempts > 0 {
		d.Attempts = t.Attempts
	}
	if len(t.Extended) > 0 {
		var err error
		if d.InputSchema, err = d.extended(t.Extended); err != nil {
			return d, err
		}
		if err := d.Check(); err != nil { // a $ref may lead nowhere
			return d, d.misfit("extended: %v", err)
		}
	}
	return d, d.presettable(t.Presets)
}

// Shown is the definition as a model is to see it: that of [Definition.Runnable] without the preset
// parameters. Whatever else the schema says stays as it was written. [ErrConfig] says what does not
// fit the tool.
func (d Definition) Shown(t Tuning) (Definition, error) {
	d, err := d.Runnable(t)
	if err != nil || len(t.Presets) == 0 {
		return d, err
	}
	schema, err := readObject(d.InputSchema)
	if err != nil {
		return d, d.misfit("inputSchema: %v", err)
	}
	preset := func(name string) bool { _, ok := t.Presets[name]; return ok }
	if schema, err = hideProperties(schema, preset); err != nil {
		return d, d.misfit("presets: %v", err)
	}
	d.InputSchema = schema.bytes()
	if err := d.Check(); err != nil { // a $ref may have led to a preset
		return d, d.misfit("presets: %v", err)
	}
	return d, nil
}

func (d Definition) misfit(format string, args ...any) error {
	return fmt.Errorf("%w: tool %q: %s", ErrConfig, d.Name, fmt.Sprintf(format, args...))
}

// presettable says whether each preset is a parameter that can be hidden from the model: one of the
// schema's own properties, or any name where the schema leaves that open.
func (d Definition) presettable(presets map[string]Preset) error {
	if len(presets) == 0 {
		return nil
	}
	root, deep, err := d.nodes()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(presets)) {
		if v := presets[name].Value; len(v) > 0 {
			if doc, err := events.ReadJSON(v); err != nil || checkNumbers(doc) != nil {
				return d.misfit("presets.%s: the value cannot be used", name) // and is not told
			}
		}
		_, own := property([]map[string]any{root}, name)
		switch _, elsewhere := property(deep, name); {
		case elsewhere || requiredIn(deep, name):
			return d.misfit("presets.%s: the parameter is declared within a $ref or allOf, anyOf, oneOf of the schema, and cannot be hidden", name)
		case !own && closed(root) && root["patternProperties"] == nil:
			return d.misfit("presets.%s: the tool has no such parameter", name)
		}
	}
	return nil
}

// nodes are what the input schema says of the arguments: itself, and its $refs and branches.
func (d Definition) nodes() (root map[string]any, deep []map[string]any, err error) {
	doc, err := events.ReadJSON(d.InputSchema)
	if err != nil {
		return nil, nil, d.misfit("inputSchema: %v", err)
	}
	all := expand([]any{doc}, doc)
	if len(all) == 0 {
		return nil, nil, d.misfit("inputSchema: a schema must be a JSON object")
	}
	return all[0], all[1:], nil
}

func requiredIn(nodes []map[string]any, name string) bool {
	return slices.ContainsFunc(nodes, func(node map[string]any) bool {
		names, _ := node["required"].([]any)
		return slices.Contains(names, any(name))
	})
}

// closed says whether a schema refuses properties that it does not list.
func closed(node map[string]any) bool {
	return node["additionalProperties"] == false || node["unevaluatedProperties"] == false
}

func hideProperties(schema object, preset func(string) bool) (object, error) {
	if raw := schema.get("properties"); raw != nil {
		properties, err := readObject(raw)
		if err != nil {
			return nil, fmt.Errorf("properties: %w", err)
		}
		if kept := properties.without(preset); len(kept) < len(properties) {
			schema = schema.set("properties", kept.bytes())
		}
	}
	raw := schema.get("required")
	if raw == nil {
		return schema, nil
	}
	var required []string
	if err := json.Unmarshal(raw, &required); err != nil {
		return nil, fmt.Errorf("required: %w", err)
	}
	kept := slices.DeleteFunc(slices.Clone(required), preset)
	switch {
	case len(kept) == 0 && len(required) > 0: // older drafts want one at least
		return schema.without(func(name string) bool { return name == "required" }), nil
	case len(kept) < len(required):
		return schema.set("required", list(kept)), nil
	}
	return schema, nil
}

func list(names []string) json.RawMessage {
	b := []byte{'['}
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, quote(name)...)
	}
	return append(b, ']')
}

// extended is the input schema with further properties merged in.
func (d Definition) extended(more json.RawMessage) (json.RawMessage, error) {
	root, deep, err := d.nodes()
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(deep, closed) {
		return nil, d.misfit("extended: a $ref or branch of the tool's schema refuses further properties")
	}
	if err := events.CheckJSON(more); err != nil {
		return nil, d.misfit("extended: %v", err)
	}
	further, err := readObject(more)
	if err != nil {
		return nil, d.misfit("extended: %v", err)
	}
	schema, err := readObject(d.InputSchema)
	if err != nil {
		return nil, d.misfit("inputSchema: %v", err)
	}
	for _, m := range further {
		switch m.name {
		case "properties":
			if name, conflict := conflicts(m.value, append(deep, root)); conflict {
				return nil, d.misfit("extended: conflicting property %q: the tool has a parameter of that name", name)
			}
			schema, err = merge(schema, m)
		case "$defs", "definitions":
			schema, err = merge(schema, m)
		case "required":
			schema, err = requireToo(schema, m.value)
		case "type":
			if string(m.value) != `"object"` {
				err = fmt.Errorf("the type is %s, must be \"object\"", m.value)
			}
		case "additionalProperties", "$schema", "$id", "$comment", "title", "description", "examples", "default":
		default:
			err = fmt.Errorf("%q cannot be merged; give properties, required and $defs", m.name)
		}
		if err != nil {
			return nil, d.misfit("extended: %v", err)
		}
	}
	return schema.bytes(), nil
}

// conflicts finds a property that the tool has already.
func conflicts(properties json.RawMessage, nodes []map[string]any) (name string, found bool) {
	more, _ := readObject(properties) // no object: merge says so
	for _, m := range more {
		if _, found := property(nodes, m.name); found {
			return m.name, true
		}
	}
	return "", false
}

// merge adds the members of an object, such as properties, to those that the schema has under its name.
func merge(schema object, more member) (object, error) {
	further, err := readObject(more.value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", more.name, err)
	}
	var own object
	if raw := schema.get(more.name); raw != nil {
		if own, err = readObject(raw); err != nil {
			return nil, fmt.Errorf("%s: %w", more.name, err)
		}
	}
	for _, m := range further {
		if own.get(m.name) != nil {
			return nil, fmt.Errorf("%s: %q is in the tool's schema already", more.name, m.name)
		}
	}
	return schema.set(more.name, append(own, further...).bytes()), nil
}

func requireToo(schema object, more json.RawMessage) (object, error) {
	var own, further []string
	if err := json.Unmarshal(more, &further); err != nil {
		return nil, fmt.Errorf("required: %w", err)
	}
	if raw := schema.get("required"); raw != nil {
		if err := json.Unmarshal(raw, &own); err != nil {
			return nil, fmt.Errorf("required: %w", err)
		}
	}
	for _, name := range further {
		if !slices.Contains(own, name) {
			own = append(own, name)
		}
	}
	return schema.set("required", list(own)), nil
}

// Tuned is the tool as an installation wants it run; see [Definition.Runnable]. Its presets are for
// [Execution]. [ErrConfig] says what does not fit the tool.
func (t *Tool) Tuned(tuning Tuning) (*Tool, error) {
	def, err := t.def.Runnable(tuning)
	if err != nil {
		return nil, err
	}
	tuned := *t
	tuned.def = def
	if len(tuning.Extended) > 0 {
		if tuned.schema, err = newSchema(def); err != nil {
			return nil, err
		}
		tuned.hash = "" // nobody else has checked arguments against this schema
	}
	return &tuned, nil
}
