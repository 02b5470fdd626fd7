package config

import (
	"encoding/json"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/toolwire/toolwire/events"
)

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// maxNesting leaves room for what a value lies in, since all of the configuration may nest only so deep.
const maxNesting = events.MaxDepth - 16

// value turns YAML into JSON: keys stay in their order, numbers keep their digits. It is nil if
// something is wrong with it.
func (r *reader) value(p path, n *yaml.Node) json.RawMessage {
	before := len(r.problems)
	b := r.appendValue(nil, p, n, 0)
	if len(r.problems) > before {
		return nil
	}
	return b
}

func (r *reader) appendValue(b []byte, p path, n *yaml.Node, depth int) []byte {
	if depth > maxNesting {
		r.bad(p, n, "nested deeper than %d levels", maxNesting)
		return b
	}
	switch n.Kind {
	case yaml.MappingNode:
		b = append(b, '{')
		first := len(b)
		r.members(p, n, func(p path, key, value *yaml.Node) {
			if len(b) > first {
				b = append(b, ',')
			}
			b = append(append(b, quote(key.Value)...), ':')
			b = r.appendValue(b, p, value, depth+1)
		})
		return append(b, '}')
	case yaml.SequenceNode:
		b = append(b, '[')
		first := len(b)
		r.items(p, n, func(p path, item *yaml.Node) {
			if len(b) > first {
				b = append(b, ',')
			}
			b = r.appendValue(b, p, item, depth+1)
		})
		return append(b, ']')
	default:
		if !r.plain(p, n) {
			return b
		}
		return append(b, r.single(p, n)...)
	}
}

// single is a value without parts as JSON.
func (r *reader) single(p path, n *yaml.Node) []byte {
	unquoted := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	switch {
	case unquoted && jsonNumber.MatchString(n.Value):
		return []byte(n.Value)
	case n.Tag == "!!null" && n.Value == "":
		r.bad(p, n, "%s has no value; write null if that is meant", p.last())
	case n.Tag == "!!null":
		return []byte("null")
	case n.Tag == "!!bool":
		return []byte(strings.ToLower(n.Value))
	case n.Tag == "!!int", n.Tag == "!!float":
		r.bad(p, n, "%s is no number as JSON has them; write it in decimal without + or _, or in quotes if it is text", p.last())
	case n.Tag == "!!merge":
		r.bad(p, n, noAnchors)
	default:
		return quote(n.Value) // a date too: JSON has none
	}
	return nil
}

func quote(s string) []byte {
	b, err := events.Marshal(s)
	if err != nil { // a string always has a JSON form
		return []byte(`""`)
	}
	return b
}
