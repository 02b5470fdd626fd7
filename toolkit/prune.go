package toolkit

import (
	"maps"
	"strings"
)

// pruneDepth bounds the walk through recursive schemas.
const pruneDepth = 128

// prune returns doc without the explicit nulls of optional properties, for validation only:
// models write null where they mean absent. It follows properties, items, local $refs and the
// combining keywords; doc itself is changed.
func prune(doc, schema, root any, depth int) any {
	node, ok := schema.(map[string]any)
	if !ok || depth > pruneDepth {
		return doc
	}
	switch doc := doc.(type) {
	case map[string]any:
		p := properties{schema: map[string]any{}, required: map[string]bool{}}
		p.collect(node, root, 0)
		for name, v := range doc {
			sub, known := p.schema[name]
			switch {
			case v == nil && known && !p.required[name]:
				delete(doc, name)
			case known:
				doc[name] = prune(v, sub, root, depth+1)
			case p.rest != nil:
				doc[name] = prune(v, p.rest, root, depth+1)
			}
		}
	case []any:
		items := resolve(node, root)["items"]
		for i := range doc {
			doc[i] = prune(doc[i], items, root, depth+1)
		}
	}
	return doc
}

// properties is what a schema says of an object, over $ref and the combining keywords. A name
// that any branch requires counts as required.
type properties struct {
	schema   map[string]any
	required map[string]bool
	rest     any // additionalProperties
}

func (p *properties) collect(node map[string]any, root any, depth int) {
	if depth > pruneDepth {
		return
	}
	if props, ok := node["properties"].(map[string]any); ok {
		maps.Copy(p.schema, props)
	}
	if req, ok := node["required"].([]any); ok {
		for _, name := range req {
			if s, ok := name.(string); ok {
				p.required[s] = true
			}
		}
	}
	if rest, ok := node["additionalProperties"].(map[string]any); ok {
		p.rest = rest
	}
	if _, ok := node["$ref"]; ok {
		p.collect(resolve(node, root), root, depth+1)
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		branches, _ := node[key].([]any)
		for _, b := range branches {
			if b, ok := b.(map[string]any); ok {
				p.collect(b, root, depth+1)
			}
		}
	}
}

// resolve follows a local $ref; a node without one, or with one that leads nowhere, is itself.
func resolve(node map[string]any, root any) map[string]any {
	for range pruneDepth {
		ref, ok := node["$ref"].(string)
		if !ok || !strings.HasPrefix(ref, "#") {
			return node
		}
		at := root
		for step := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(ref, "#"), "/"), "/") {
			if step == "" {
				continue
			}
			m, ok := at.(map[string]any)
			if !ok {
				return node
			}
			at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
		}
		next, ok := at.(map[string]any)
		if !ok {
			return node
		}
		node = next
	}
	return node
}
