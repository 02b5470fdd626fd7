package toolkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// suit makes the root of a schema as the API of a model takes it.
func (x *exporter) suit(t *exportTool, root object) (object, error) {
	d := draftOf(root)
	raw, err := edit(root.bytes(), func(o object) object {
		if o = d.modern(o); x.complete {
			o = complete(o)
		}
		return o
	})
	if err != nil {
		return nil, err
	}
	if root, err = readObject(raw); err != nil {
		return nil, err
	}
	root = root.without(func(name string) bool {
		return name == "$schema" || name == "$id" || name == "id" && d.first
	})
	if root, err = x.flatten(t, root); err != nil {
		return nil, err
	}
	root = ofObject(root)
	if root.get("properties") == nil {
		root = root.set("properties", json.RawMessage(`{}`))
	}
	if x.lists && root.get("required") == nil {
		root = root.set("required", json.RawMessage(`[]`))
	}
	if x.keys == nil {
		return root, nil
	}
	return x.checkKeys(root)
}

// checkKeys takes away optional arguments whose names the API refuses.
func (x *exporter) checkKeys(root object) (object, error) {
	props, err := readObject(root.get("properties"))
	if err != nil {
		return nil, err
	}
	must := asTexts(root.get("required"))
	var refused []string
	for _, p := range props {
		switch {
		case x.keys.MatchString(p.name):
		case slices.Contains(must, p.name):
			return nil, fmt.Errorf("this API refuses the name of its argument %q, which is required", p.name)
		default:
			refused = append(refused, p.name)
		}
	}
	if len(refused) == 0 {
		return root, nil
	}
	x.remark("the API refuses the names of these arguments, which are not shown: %q", refused)
	return root.set("properties", props.without(func(name string) bool { return slices.Contains(refused, name) }).bytes()), nil
}

// ofObject says of a root that it is an object: arguments are one.
func ofObject(root object) object {
	switch {
	case string(root.get("type")) == `"object"`:
		return root
	case root.get("type") == nil:
		return append(object{{"type", json.RawMessage(`"object"`)}}, root...)
	}
	return root.set("type", json.RawMessage(`"object"`))
}

// complete says of an object that it may have any properties, and of an array any items, where the
// schema says nothing: the same to JSON Schema, but OpenAI refuses silence.
func complete(o object) object {
	types := typesOf(o)
	if slices.Contains(types, "object") && o.get("properties") == nil {
		o = o.set("properties", json.RawMessage(`{}`))
	}
	if slices.Contains(types, "array") && o.get("items") == nil && o.get("prefixItems") == nil {
		o = o.set("items", json.RawMessage(`{}`))
	}
	return o
}

// draft is the version of JSON Schema that a schema is written in. The APIs read all as 2020-12.
type draft struct {
	old   bool   // before 2020-12
	refs  bool   // a $ref stands alone: up to 7
	first bool   // up to 4
	id    string // the schema's own address
}

func draftOf(root object) draft {
	var d draft
	at := asText(root.get("$schema"))
	older := func(versions ...string) bool {
		return slices.ContainsFunc(versions, func(v string) bool { return strings.Contains(at, v) })
	}
	d.first = older("draft-03", "draft-04")
	d.refs = d.first || older("draft-06", "draft-07")
	d.old = d.refs || older("2019-09")
	if d.id = asText(root.get("$id")); d.id == "" && d.first {
		d.id = asText(root.get("id"))
	}
	d.id = strings.TrimSuffix(d.id, "#")
	return d
}

// modern says in 2020-12 what an older draft says in other words.
func (d draft) modern(o object) object {
	if ref := asText(o.get("$ref")); d.id != "" && strings.HasPrefix(ref, d.id+"#") {
		o = o.set("$ref", quote(ref[len(d.id):]))
	}
	if !d.old {
		return o
	}
	if d.refs && o.get("$ref") != nil {
		return o.without(func(name string) bool {
			return !slices.Contains([]string{"$schema", "$id", "id", "$ref", "$defs", "definitions", "title", "description"}, name)
		})
	}
	if first(o.get("items")) == '[' {
		o = o.rename("items", "prefixItems").rename("additionalItems", "items")
	}
	if needs, err := readObject(o.get("dependencies")); err == nil {
		o = d.dependencies(o, needs)
	}
	for _, bound := range [][2]string{{"exclusiveMinimum", "minimum"}, {"exclusiveMaximum", "maximum"}} {
		switch strict := string(o.get(bound[0])); {
		case strict == "true" && o.get(bound[1]) != nil:
			o = o.set(bound[0], o.get(bound[1])).without(func(name string) bool { return name == bound[1] })
		case strict == "true", strict == "false":
			o = o.without(func(name string) bool { return name == bound[0] })
		}
	}
	return o
}

func (draft) dependencies(o, needs object) object {
	var lists, schemas object
	for _, m := range needs {
		if first(m.value) == '[' {
			lists = append(lists, m)
		} else {
			schemas = append(schemas, m)
		}
	}
	o = o.without(func(name string) bool { return name == "dependencies" })
	if lists != nil {
		o = o.set("dependentRequired", lists.bytes())
	}
	if schemas != nil {
		o = o.set("dependentSchemas", schemas.bytes())
	}
	return o
}

// edit rewrites a schema and every schema within, the inner ones first. What is no object stays.
func edit(raw json.RawMessage, change func(object) object) (json.RawMessage, error) {
	if first(raw) != '{' {
		return raw, nil
	}
	o, err := readObject(raw)
	if err != nil {
		return nil, err
	}
	for i, m := range o {
		if o[i].value, err = editWithin(m, change); err != nil {
			return nil, err
		}
	}
	return change(o).bytes(), nil
}

func editWithin(m member, change func(object) object) (json.RawMessage, error) {
	switch m.name {
	case "items", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties",
		"contains", "propertyNames", "not", "if", "then", "else", "contentSchema",
		"allOf", "anyOf", "oneOf", "prefixItems":
		if first(m.value) != '[' {
			return edit(m.value, change)
		}
		list, err := elements(m.value)
		for i := range list {
			if err == nil {
				list[i], err = edit(list[i], change)
			}
		}
		return joined("[", list, "]"), err
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		if first(m.value) != '{' {
			return m.value, nil
		}
		named, err := readObject(m.value)
		for i := range named {
			if err == nil {
				named[i].value, err = edit(named[i].value, change)
			}
		}
		return named.bytes(), err
	}
	return m.value, nil
}

// rename gives a member another name, in its place.
func (o object) rename(from, to string) object {
	for i := range o {
		if o[i].name == from {
			o[i].name = to
		}
	}
	return o
}

// first is the byte that a JSON value begins with; 0: there is none.
func first(raw json.RawMessage) byte {
	if t := bytes.TrimLeft(raw, " \t\r\n"); len(t) > 0 {
		return t[0]
	}
	return 0
}

func elements(raw json.RawMessage) (list []json.RawMessage, err error) {
	return list, json.Unmarshal(raw, &list)
}

// asText is a string value; "" for any other.
func asText(raw json.RawMessage) string {
	var s string
	if first(raw) != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// asTexts is a list of strings; nil for any other value.
func asTexts(raw json.RawMessage) []string {
	var list []string
	if first(raw) != '[' || json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

// typesOf lists the types that a schema allows by name; none: it does not say.
func typesOf(o object) []string {
	raw := o.get("type")
	if one := asText(raw); one != "" {
		return []string{one}
	}
	return asTexts(raw)
}

func ofTexts(texts []string) json.RawMessage {
	all := make([]json.RawMessage, len(texts))
	for i, s := range texts {
		all[i] = quote(s)
	}
	return joined("[", all, "]")
}
