package toolkit

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// prune returns doc without the explicit nulls of optional properties, for validation only:
// models write null where they mean absent. It follows properties, items, local $refs and the
// combining keywords; doc itself is changed. A name that any branch requires counts as required.
func prune(doc any, schemas []any, root any) any {
	switch doc := doc.(type) {
	case map[string]any:
		nodes := expand(schemas, root)
		required := map[string]bool{}
		for _, node := range nodes {
			names, _ := node["required"].([]any)
			for _, name := range names {
				if s, ok := name.(string); ok {
					required[s] = true
				}
			}
		}
		for name, v := range doc {
			subs, named := property(nodes, name)
			if v == nil && named && !required[name] {
				delete(doc, name)
				continue
			}
			doc[name] = prune(v, subs, root)
		}
	case []any:
		nodes := expand(schemas, root)
		for i := range doc {
			doc[i] = prune(doc[i], item(nodes, i), root)
		}
	}
	return doc
}

// expand lists all that a schema says of one value: what schemas, their $refs and their branches
// say, each once, so that references in a circle end.
func expand(schemas []any, root any) (nodes []map[string]any) {
	schemas = slices.Clone(schemas)
	seen := map[string]bool{} // references followed
	for at := 0; at < len(schemas); at++ {
		node, ok := schemas[at].(map[string]any)
		if !ok {
			continue
		}
		nodes = append(nodes, node)
		if ref, ok := node["$ref"].(string); ok && !seen[ref] {
			seen[ref] = true
			schemas = append(schemas, resolve(ref, root))
		}
		for _, key := range []string{"allOf", "anyOf", "oneOf"} {
			branches, _ := node[key].([]any)
			schemas = append(schemas, branches...)
		}
	}
	return nodes
}

// property lists what the nodes say of the property name; named if one lists it by its name.
func property(nodes []map[string]any, name string) (schemas []any, named bool) {
	for _, node := range nodes {
		props, _ := node["properties"].(map[string]any)
		if sub, ok := props[name]; ok {
			schemas, named = append(schemas, sub), true
		} else if rest, ok := node["additionalProperties"]; ok {
			schemas = append(schemas, rest)
		}
	}
	return schemas, named
}

// item lists what the nodes say of the element at i.
func item(nodes []map[string]any, i int) (schemas []any) {
	for _, node := range nodes {
		first, _ := node["prefixItems"].([]any)
		if i < len(first) {
			schemas = append(schemas, first[i])
		} else if sub, ok := node["items"]; ok {
			schemas = append(schemas, sub)
		}
	}
	return schemas
}

// resolve follows a local $ref, a JSON pointer; nil for any other and for one that leads nowhere.
func resolve(ref string, root any) any {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	if plain, err := url.PathUnescape(pointer); err == nil {
		pointer = plain
	}
	at := root
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		switch node := at.(type) {
		case map[string]any:
			at = node[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(node) {
				return nil
			}
			at = node[i]
		default:
			return nil
		}
	}
	return at
}
