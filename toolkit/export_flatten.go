package toolkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	maxBranches = 1000 // schemas that a root may be put together from
	maxTold     = 4096 // bytes of the rules told in a description
)

// flatten makes a root without the keywords that the API refuses there: one list of arguments, with
// those of all branches. What that cannot say is told in the tool's description, and still validated
// where the tool runs.
func (x *exporter) flatten(t *exportTool, root object) (object, error) {
	refused := append([]string{"$ref"}, x.refused...)
	if !slices.ContainsFunc(root, func(m member) bool { return slices.Contains(refused, m.name) }) {
		return root, nil
	}
	f := &flattener{root: root.bytes(), left: maxBranches}
	all := own(root)
	exact := all.rest && root.get("unevaluatedProperties") == nil
	var told object
	for _, m := range root {
		if m.name == "unevaluatedProperties" {
			told = append(told, m)
			continue
		}
		if !slices.Contains(refused, m.name) {
			continue
		}
		branch, err := f.combined(m, nil)
		if err != nil {
			return nil, fmt.Errorf("the API refuses %s at the root of its schema, and it cannot be flattened: %w", m.name, err)
		}
		all = all.and(branch)
		if !branch.exact || !exact {
			told = append(told, m)
		}
	}
	root = root.without(func(name string) bool {
		return slices.Contains(refused, name) || name == "unevaluatedProperties"
	})
	root = root.set("properties", all.props.bytes())
	if len(all.required) > 0 {
		root = root.set("required", ofTexts(all.required))
	}
	if all.closed {
		root = root.set("additionalProperties", boolean(false))
	}
	return root, x.tell(t, told)
}

// tell adds to the description of a tool what its schema no longer says.
func (x *exporter) tell(t *exportTool, told object) error {
	if len(told) == 0 {
		return nil
	}
	var words []string
	for _, m := range told {
		words = append(words, m.name)
	}
	rules, err := compact(told.bytes())
	if err != nil {
		return err
	}
	if len(rules) > maxTold {
		x.remark("%s at the root of its schema is flattened, and too long to tell", strings.Join(words, ", "))
		return nil
	}
	x.remark("%s at the root of its schema is flattened, and told in its description", strings.Join(words, ", "))
	t.Description = strings.TrimSpace(t.Description + "\n\nThe arguments must also match this JSON Schema: " + string(rules))
	return nil
}

// arguments is what a schema says of the members of an object.
type arguments struct {
	props    object
	required []string
	closed   bool // no others are allowed
	exact    bool // it says no more than this
	rest     bool // exact as to other members: what the schema says of them is kept by adding to props
}

// own reads what a schema says itself, without its branches.
func own(o object) arguments {
	a := arguments{required: asTexts(o.get("required")), exact: true, rest: true}
	a.props, _ = readObject(o.get("properties")) // none, if it has none
	for _, m := range o {
		switch m.name {
		case "properties", "required", "title", "description", "$comment", "default", "examples", "$defs", "definitions",
			"$ref", "allOf", "anyOf", "oneOf":
		case "type":
			a.exact = a.exact && slices.Contains(typesOf(o), "object")
		case "additionalProperties":
			a.closed = string(m.value) == "false" && o.get("patternProperties") == nil
			a.rest = a.closed || string(m.value) == "true"
		default:
			a.exact = false
		}
	}
	a.exact = a.exact && a.rest
	return a
}

// and is what holds when both do.
func (a arguments) and(b arguments) arguments {
	both := arguments{closed: a.closed || b.closed, exact: a.exact && b.exact, required: slices.Clone(a.required)}
	for _, m := range a.props {
		if other := b.props.get(m.name); other != nil {
			m.value = combine("allOf", []json.RawMessage{m.value, other})
		} else if b.closed {
			continue
		}
		both.props = append(both.props, m)
	}
	for _, m := range b.props {
		if a.props.get(m.name) == nil && !a.closed {
			both.props = append(both.props, m)
		}
	}
	for _, name := range b.required {
		if !slices.Contains(both.required, name) {
			both.required = append(both.required, name)
		}
	}
	return both
}

// anyOf is what may hold when one of them does.
func anyOf(all []arguments) arguments {
	if len(all) == 1 {
		return all[0]
	}
	some := arguments{closed: true, required: all[0].required}
	for _, a := range all {
		some.closed = some.closed && a.closed
		some.required = slices.DeleteFunc(slices.Clone(some.required), func(name string) bool { return !slices.Contains(a.required, name) })
		for _, m := range a.props {
			if some.props.get(m.name) != nil {
				continue
			}
			var ways []json.RawMessage
			for _, b := range all {
				if way := b.props.get(m.name); way != nil {
					ways = append(ways, way)
				}
			}
			some.props = append(some.props, member{m.name, combine("anyOf", ways)})
		}
	}
	return some
}

// combine makes one of several schemas of a value; equal ones are one.
func combine(word string, ways []json.RawMessage) json.RawMessage {
	var unlike []json.RawMessage
	for _, way := range ways {
		if !slices.ContainsFunc(unlike, func(other json.RawMessage) bool { return bytes.Equal(way, other) }) {
			unlike = append(unlike, way)
		}
	}
	if len(unlike) == 1 {
		return unlike[0]
	}
	return object{{word, joined("[", unlike, "]")}}.bytes()
}

// flattener follows the branches of a root.
type flattener struct {
	root json.RawMessage
	left int // schemas that it may still read
}

var errNothing = errors.New("no arguments match it")

// of reads a schema with its branches; through are the references on the way to it.
func (f *flattener) of(raw json.RawMessage, through []string) (arguments, error) {
	if f.left--; f.left < 0 {
		return arguments{}, fmt.Errorf("it has more than %d branches", maxBranches)
	}
	switch first(raw) {
	case 'f':
		return arguments{}, errNothing
	case 't':
		return arguments{exact: true}, nil
	}
	o, err := readObject(raw)
	if err != nil {
		return arguments{}, err
	}
	a := own(o)
	if types := typesOf(o); len(types) > 0 && !slices.Contains(types, "object") {
		return arguments{}, errNothing
	}
	for _, m := range o {
		b, err := f.combined(m, through)
		if err != nil {
			return arguments{}, err
		}
		a = a.and(b)
	}
	return a, nil
}

// combined reads the branches that a member of a schema holds; nothing, if it holds none.
func (f *flattener) combined(m member, through []string) (arguments, error) {
	var branches []json.RawMessage
	var err error
	switch m.name {
	case "$ref":
		return f.reference(asText(m.value), through)
	case "allOf", "anyOf", "oneOf":
		branches, err = elements(m.value)
	case "not", "enum":
		return arguments{}, nil
	default:
		return arguments{exact: true}, nil
	}
	var all []arguments
	for _, raw := range branches {
		a, failed := f.of(raw, through)
		switch {
		case failed == nil:
			all = append(all, a)
		case m.name == "allOf" || !errors.Is(failed, errNothing):
			return arguments{}, failed
		}
	}
	switch {
	case err != nil:
		return arguments{}, err
	case len(all) == 0:
		return arguments{}, errNothing
	case m.name != "allOf":
		return anyOf(all), nil
	}
	sum := arguments{exact: true}
	for _, a := range all {
		sum = sum.and(a)
	}
	return sum, nil
}

func (f *flattener) reference(ref string, through []string) (arguments, error) {
	if slices.Contains(through, ref) || ref == "#" {
		return arguments{}, nil // a circle says nothing new
	}
	target, err := find(f.root, ref)
	if err != nil {
		return arguments{}, err
	}
	return f.of(target, append(slices.Clip(through), ref))
}

// find follows a local $ref through a document as it is written.
func find(root json.RawMessage, ref string) (json.RawMessage, error) {
	nowhere := fmt.Errorf("its $ref %q leads nowhere that can be read", ref)
	pointer, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil, nowhere
	}
	if plain, err := url.PathUnescape(pointer); err == nil {
		pointer = plain
	}
	at := root
	for step := range strings.SplitSeq(pointer, "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		if first(at) == '[' {
			items, err := elements(at)
			i, bad := strconv.Atoi(step)
			if err != nil || bad != nil || i < 0 || i >= len(items) {
				return nil, nowhere
			}
			at = items[i]
			continue
		}
		o, err := readObject(at)
		if err != nil || o.get(step) == nil {
			return nil, nowhere
		}
		at = o.get(step)
	}
	return at, nil
}
