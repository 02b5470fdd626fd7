package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const noAnchors = "anchors, aliases and merge keys are not allowed; write it out"

// path is the keys that lead to a part of the file.
type path []string

func (p path) child(name string) path { return append(slices.Clip(p), name) }

func (p path) key() string { return strings.Join(p, "\x00") }

// last is the name of the part, for a message that stands beside its line.
func (p path) last() string {
	if len(p) == 0 {
		return "the file"
	}
	name := p[len(p)-1]
	if n, err := strconv.Atoi(name); err == nil && len(p) > 1 {
		return fmt.Sprintf("entry %d of %q", n+1, p[len(p)-2])
	}
	return strconv.Quote(name)
}

// reader goes through a document and collects what is wrong with it.
type reader struct {
	file     string
	problems []Problem
	warnings []Problem
	failed   map[string]bool       // paths that something is wrong with
	at       map[string]*yaml.Node // where each path of the configuration is written
}

func newReader(file string) *reader {
	return &reader{file: file, failed: make(map[string]bool), at: make(map[string]*yaml.Node)}
}

func (r *reader) bad(p path, n *yaml.Node, format string, args ...any) {
	r.failed[p.key()] = true
	r.problems = append(r.problems, Problem{r.file, n.Line, n.Column, fmt.Sprintf(format, args...)})
}

// plain says whether a node means what it says: no alias, and no tag that changes its kind.
func (r *reader) plain(p path, n *yaml.Node) bool {
	switch {
	case n.Kind == yaml.AliasNode, n.Anchor != "":
		r.bad(p, n, noAnchors)
	case n.Style&yaml.TaggedStyle != 0:
		r.bad(p, n, "the tag %s is not allowed", n.Tag)
	default:
		return true
	}
	return false
}

// members goes through the keys of an object, each once.
func (r *reader) members(p path, n *yaml.Node, each func(p path, key, value *yaml.Node)) {
	if !r.plain(p, n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.bad(p, n, "%s must be an object of keys and values, not %s", p.last(), describe(n))
		return
	}
	seen := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		p := p.child(key.Value)
		switch first := seen[key.Value]; {
		case key.Tag == "!!merge":
			r.bad(p, key, noAnchors)
		case !r.plain(p, key):
		case key.Kind != yaml.ScalarNode:
			r.bad(p, key, "a key must be a string, not %s", describe(key))
		case key.Tag != "!!str":
			r.bad(p, key, "a key must be a string, not %s; put it in quotes", describe(key))
		case first != nil:
			r.bad(p, key, "key %q appears twice; first in line %d", key.Value, first.Line)
		default:
			seen[key.Value] = key
			r.place(p, key, value)
			each(p, key, value)
		}
	}
}

// place notes where a member is written: at its value, or at its key if that has parts of its own.
func (r *reader) place(p path, key, value *yaml.Node) {
	if value.Kind == yaml.ScalarNode && !isNull(value) {
		key = value
	}
	r.at[p.key()] = key
}

// items goes through a list.
func (r *reader) items(p path, n *yaml.Node, each func(p path, item *yaml.Node)) {
	if !r.plain(p, n) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		r.bad(p, n, "%s must be a list, not %s", p.last(), describe(n))
		return
	}
	for i, item := range n.Content {
		p := p.child(strconv.Itoa(i))
		r.at[p.key()] = item
		each(p, item)
	}
}

// where finds the nearest part that is written for a path.
func (r *reader) where(p path, root *yaml.Node) *yaml.Node {
	for ; len(p) > 0; p = p[:len(p)-1] {
		if n := r.at[p.key()]; n != nil {
			return n
		}
	}
	return root
}

// known says whether something was said already about a part or what it is in.
func (r *reader) known(p path) bool {
	for ; len(p) > 0; p = p[:len(p)-1] {
		if r.failed[p.key()] {
			return true
		}
	}
	return r.failed[""]
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// describe names the kind of a value for people.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	default:
	}
	switch n.Tag {
	case "!!null":
		return "nothing"
	case "!!bool":
		return n.Value
	case "!!int", "!!float":
		return "a number"
	case "!!timestamp":
		return "a date"
	}
	return "text"
}
