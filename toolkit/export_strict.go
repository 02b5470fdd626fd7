package toolkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// strictRules is what an API wants of the schema of a strict tool: every object is closed, and only
// some keywords are known. Zero numbers are no limits.
type strictRules struct {
	optional bool // properties may be left out, and schemas must not refer to themselves; else all are required

	maxDepth, maxProperties, maxEnum int // of one tool
	maxTools, maxOptional, maxUnions int // of all tools of a request
}

// strictUse is what of the limits is used up.
type strictUse struct{ tools, optional, unions, properties, enum int }

// makeStrict makes the schema one of a strict tool. Optional arguments may then be null, which counts
// as absent where the tool runs. What that API cannot enforce is left to validation there; where the schema's
// form cannot be kept, the tool is exported without strict.
func (x *exporter) makeStrict(t *exportTool) bool {
	w := &strictWriter{strictRules: *x.strict}
	schema, err := w.write(t.schema)
	if err == nil {
		err = x.fits(w.use)
	}
	if err == nil {
		_, err = compile(schema)
	}
	if err != nil {
		x.remark("not strict: %v", err)
		loose := false
		t.Strict = &loose
		return false
	}
	x.used.tools, x.used.optional, x.used.unions = x.used.tools+1, x.used.optional+w.use.optional, x.used.unions+w.use.unions
	t.schema = schema
	return true
}

// fits says whether one more strict tool is within what the API allows.
func (x *exporter) fits(u strictUse) error {
	for _, limit := range []struct {
		n, most int
		what    string
	}{
		{u.properties, x.strict.maxProperties, "properties"},
		{u.enum, x.strict.maxEnum, "enum values"},
		{x.used.tools + 1, x.strict.maxTools, "strict tools in a request"},
		{x.used.optional + u.optional, x.strict.maxOptional, "optional arguments of strict tools in a request"},
		{x.used.unions + u.unions, x.strict.maxUnions, "arguments of several types in strict tools of a request"},
	} {
		if limit.most > 0 && limit.n > limit.most {
			return fmt.Errorf("the API takes at most %d %s", limit.most, limit.what)
		}
	}
	return nil
}

// strictWriter writes one schema.
type strictWriter struct {
	strictRules
	use strictUse
}

func (w *strictWriter) write(raw json.RawMessage) (json.RawMessage, error) {
	if w.optional && circular(raw) {
		return nil, errors.New("its schema refers to itself")
	}
	root, err := readObject(raw)
	if err != nil {
		return nil, err
	}
	if len(typesOf(root)) == 1 && string(root.get("properties")) == "{}" && root.get("additionalProperties") == nil {
		root = root.set("additionalProperties", boolean(false)) // a tool without arguments
	}
	return w.object(root, "the root", 0)
}

// schema writes the schema of a value at a path.
func (w *strictWriter) schema(raw json.RawMessage, at string, depth int) (json.RawMessage, error) {
	if first(raw) != '{' {
		return nil, fmt.Errorf("%s may be anything", at)
	}
	o, err := readObject(raw)
	if err != nil {
		return nil, err
	}
	return w.object(o, at, depth)
}

func (w *strictWriter) object(o object, at string, depth int) (json.RawMessage, error) {
	if w.maxDepth > 0 && depth > w.maxDepth {
		return nil, fmt.Errorf("%s is deeper than %d levels", at, w.maxDepth)
	}
	o, err := w.reduce(o, at)
	if err != nil {
		return nil, err
	}
	if o.get("$ref") != nil {
		return o.bytes(), nil
	}
	types := typesOf(o)
	if slices.Contains(types, "object") || o.get("properties") != nil {
		if o, err = w.closed(o, at, depth); err != nil {
			return nil, err
		}
	}
	if slices.Contains(types, "array") && o.get("items") == nil {
		return nil, fmt.Errorf("%s is an array of anything", at)
	}
	if len(typesOf(o)) == 0 && o.get("anyOf") == nil {
		return nil, fmt.Errorf("%s says no type", at)
	}
	if len(types) > 1 || o.get("anyOf") != nil {
		w.use.unions++
	}
	for i, m := range o {
		if o[i].value, err = w.within(m, at, depth); err != nil {
			return nil, err
		}
	}
	return o.bytes(), nil
}

// within writes the schemas that a member holds, less those of properties.
func (w *strictWriter) within(m member, at string, depth int) (json.RawMessage, error) {
	switch m.name {
	case "items":
		return w.schema(m.value, at+"/items", depth+1)
	case "anyOf":
		ways, err := elements(m.value)
		for i := range ways {
			if err == nil {
				ways[i], err = w.schema(ways[i], fmt.Sprintf("%s/anyOf/%d", at, i), depth)
			}
		}
		return joined("[", ways, "]"), err
	case "$defs", "definitions":
		defs, err := readObject(m.value)
		for i := range defs {
			if err == nil {
				defs[i].value, err = w.schema(defs[i].value, m.name+"/"+defs[i].name, depth)
			}
		}
		return defs.bytes(), err
	case "enum":
		values, err := elements(m.value)
		w.use.enum += len(values)
		return m.value, err
	}
	return m.value, nil
}

// closed writes an object that takes no other properties.
func (w *strictWriter) closed(o object, at string, depth int) (object, error) {
	if first(o.get("additionalProperties")) == '{' && string(o.get("additionalProperties")) != "{}" {
		return nil, fmt.Errorf("%s takes properties of any name", at)
	}
	props, _ := readObject(o.get("properties")) // none, if it has none
	if len(props) == 0 && string(o.get("additionalProperties")) != "false" {
		return nil, fmt.Errorf("%s takes any properties", at)
	}
	must := asTexts(o.get("required"))
	for _, name := range must {
		if props.get(name) == nil {
			return nil, fmt.Errorf("%s requires %q, which it does not describe", at, name)
		}
	}
	every := make([]string, len(props))
	for i, p := range props {
		every[i] = p.name
		value, err := w.schema(p.value, at+"/"+p.name, depth+1)
		if err == nil && !slices.Contains(must, p.name) {
			if w.use.optional++; !w.optional {
				value, err = nullable(value)
			}
		}
		if err != nil {
			return nil, err
		}
		props[i].value = value
	}
	w.use.properties += len(props)
	if o = o.set("properties", props.bytes()); !w.optional {
		o = o.set("required", ofTexts(every))
	}
	o = o.set("additionalProperties", boolean(false))
	if len(typesOf(o)) == 0 {
		o = append(object{{"type", quote("object")}}, o...)
	}
	return o, nil
}

// reduce leaves the keywords that a strict schema may have. Those that only narrow values are for
// validation where the tool runs; without those that shape them the schema would be another.
func (w *strictWriter) reduce(o object, at string) (object, error) {
	o, err := single(o)
	if err != nil {
		return nil, err
	}
	if o.get("anyOf") == nil {
		o = o.rename("oneOf", "anyOf")
	}
	for _, name := range []string{"allOf", "oneOf", "not", "if", "dependentRequired", "dependentSchemas", "patternProperties", "prefixItems", "$dynamicRef"} {
		if o.get(name) != nil {
			return nil, fmt.Errorf("%s has %s, which strict does not know", at, name)
		}
	}
	if o.get("$ref") != nil {
		for _, m := range o {
			if !annotates(m.name) && m.name != "$ref" && w.keeps(m) {
				return nil, fmt.Errorf("%s has %s beside $ref", at, m.name)
			}
		}
		return object{{"$ref", o.get("$ref")}}, nil
	}
	o = slices.DeleteFunc(o, func(m member) bool { return !w.keeps(m) })
	if o.get("type") == nil {
		if kind := kindOfValues(o); kind != "" {
			o = append(object{{"type", quote(kind)}}, o...)
		}
	}
	return o, nil
}

// keeps says whether a strict schema may have a keyword.
func (w *strictWriter) keeps(m member) bool {
	switch m.name {
	case "type", "title", "description", "properties", "required", "additionalProperties", "items", "enum", "const",
		"anyOf", "$ref", "$defs", "definitions":
		return true
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "maxItems":
		return !w.optional
	case "minItems":
		return !w.optional || string(m.value) == "0" || string(m.value) == "1"
	case "pattern":
		return !lookAround.MatchString(asText(m.value))
	case "format":
		return slices.Contains([]string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}, asText(m.value))
	}
	return false
}

// lookAround is what patterns of strict schemas must not have: lookaround, word boundaries, references back.
var lookAround = regexp.MustCompile(`\(\?|\\[bB1-9]`)

func annotates(name string) bool {
	return slices.Contains([]string{"title", "description", "$defs", "definitions"}, name)
}

// single puts the only schema of an allOf in the place of it, as generators write a described $ref.
func single(o object) (object, error) {
	if o.get("allOf") == nil {
		return o, nil
	}
	all, err := elements(o.get("allOf"))
	if err != nil || len(all) != 1 || first(all[0]) != '{' {
		return o, err
	}
	inner, err := readObject(all[0])
	if err != nil {
		return nil, err
	}
	rest := o.without(func(name string) bool { return name == "allOf" })
	for _, m := range inner {
		switch {
		case rest.get(m.name) == nil:
			rest = append(rest, m)
		case !annotates(m.name) && !bytes.Equal(rest.get(m.name), m.value):
			return nil, fmt.Errorf("allOf says another %s", m.name)
		}
	}
	return rest, nil
}

// kindOfValues is the type of all values of an enum or const, "" if they are of several.
func kindOfValues(o object) string {
	values, err := elements(o.get("enum"))
	if one := o.get("const"); one != nil {
		values, err = []json.RawMessage{one}, nil
	}
	kinds := map[string]bool{}
	for _, v := range values {
		switch first(v) {
		case '"':
			kinds["string"] = true
		case 't', 'f':
			kinds["boolean"] = true
		case '{', '[', 'n', 0:
			kinds[""] = true
		default:
			kinds["number"] = true
		}
	}
	if err != nil || len(kinds) != 1 {
		return ""
	}
	for kind := range kinds {
		return kind
	}
	return ""
}

// nullable makes a schema that takes null too.
func nullable(raw json.RawMessage) (json.RawMessage, error) {
	null := json.RawMessage(`{"type":"null"}`)
	o, err := readObject(raw)
	if err != nil {
		return nil, err
	}
	if o.get("$ref") != nil {
		return object{{"anyOf", joined("[", []json.RawMessage{raw, null}, "]")}}.bytes(), nil
	}
	if ways := o.get("anyOf"); ways != nil {
		all, err := elements(ways)
		if !slices.ContainsFunc(all, func(way json.RawMessage) bool { return bytes.Equal(way, null) }) {
			all = append(all, null)
		}
		o = o.set("anyOf", joined("[", all, "]"))
		if err != nil {
			return nil, err
		}
	}
	if types := typesOf(o); len(types) > 0 && !slices.Contains(types, "null") {
		o = o.set("type", ofTexts(append(types, "null")))
	}
	if one := o.get("const"); one != nil {
		o = o.rename("const", "enum").set("enum", joined("[", []json.RawMessage{one}, "]"))
	}
	if values := o.get("enum"); values != nil {
		all, err := elements(values)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(all, func(v json.RawMessage) bool { return string(v) == "null" }) {
			all = append(all, json.RawMessage("null"))
		}
		o = o.set("enum", joined("[", all, "]"))
	}
	return o.bytes(), nil
}

// circular says whether following the references of a schema ever leads back.
func circular(root json.RawMessage) bool {
	done := map[string]bool{}
	var leads func(raw json.RawMessage, through []string) bool
	leads = func(raw json.RawMessage, through []string) bool {
		var refs []string
		_, _ = edit(raw, func(o object) object { // reads only
			if ref := asText(o.get("$ref")); ref != "" {
				refs = append(refs, ref)
			}
			return o
		})
		for _, ref := range refs {
			if slices.Contains(through, ref) || ref == "#" {
				return true
			}
			if done[ref] {
				continue
			}
			target, err := find(root, ref)
			if err == nil && leads(target, append(slices.Clip(through), ref)) {
				return true
			}
			done[ref] = true
		}
		return false
	}
	return leads(root, nil)
}
