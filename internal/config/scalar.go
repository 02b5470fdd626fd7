package config

import (
	"regexp"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/toolwire/toolwire/toolkit"
)

// scalar says whether a value is a single one of a tag; what names that kind for people.
func (r *reader) scalar(p path, n *yaml.Node, tag, what string) bool {
	switch {
	case !r.plain(p, n):
	case isNull(n) && tag != "!!null":
		r.bad(p, n, "%s has no value; it must be %s", p.last(), what)
	case n.Kind != yaml.ScalarNode || n.Tag != tag:
		quotes := ""
		if n.Kind == yaml.ScalarNode && tag == "!!str" {
			quotes = "; put it in quotes"
		}
		r.bad(p, n, "%s must be %s, not %s%s", p.last(), what, describe(n), quotes)
	default:
		return true
	}
	return false
}

func (r *reader) text(p path, n *yaml.Node) (string, bool) {
	if !r.scalar(p, n, "!!str", "text") {
		return "", false
	}
	if n.Value == "" {
		r.bad(p, n, "%s is empty; leave it out, or write something", p.last())
		return "", false
	}
	return n.Value, true
}

// texts reads a list of texts. It is never nil, so that an empty one can be told from none.
func (r *reader) texts(p path, n *yaml.Node) []string {
	all := []string{}
	r.items(p, n, func(p path, item *yaml.Node) {
		text, _ := r.text(p, item) // kept if bad, for the indexes of what is checked later
		all = append(all, text)
	})
	return all
}

// someTexts reads a list with something in it.
func (r *reader) someTexts(p path, n *yaml.Node) []string {
	all := r.texts(p, n)
	if n.Kind == yaml.SequenceNode && len(all) == 0 && !r.failed[p.key()] {
		r.bad(p, n, "%s is empty; leave it out, or write something", p.last())
	}
	return all
}

func (r *reader) flag(p path, n *yaml.Node) bool {
	return r.scalar(p, n, "!!bool", "true or false") && (n.Value[0] == 't' || n.Value[0] == 'T')
}

var wholeNumber = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)

// count reads a number from 1.
func (r *reader) count(p path, n *yaml.Node) int {
	if !r.scalar(p, n, "!!int", "a whole number from 1") {
		return 0
	}
	v, err := strconv.ParseInt(n.Value, 10, 32)
	if err != nil || !wholeNumber.MatchString(n.Value) || v < 1 {
		r.bad(p, n, "%s must be a whole number from 1 to 2147483647", p.last())
		return 0
	}
	return int(v)
}

func (r *reader) duration(p path, n *yaml.Node) toolkit.Duration {
	const what = "a duration with its unit, such as 500ms, 30s or 1h30m"
	if n.Kind == yaml.ScalarNode && (n.Tag == "!!int" || n.Tag == "!!float") {
		r.bad(p, n, "%s must be %s", p.last(), what)
		return 0
	}
	if !r.scalar(p, n, "!!str", what) {
		return 0
	}
	d, err := time.ParseDuration(n.Value)
	switch {
	case err != nil:
		r.bad(p, n, "%s must be %s", p.last(), what)
	case d <= 0:
		r.bad(p, n, "%s must be more than 0; leave it out for the default", p.last())
		d = 0
	}
	return toolkit.Duration(d)
}

// word reads one of a few words.
func word[T ~string](r *reader, p path, n *yaml.Node, what string, words ...T) T {
	text, ok := r.text(p, n)
	if !ok || slices.Contains(words, T(text)) {
		return T(text)
	}
	allowed := make([]string, len(words))
	for i, w := range words {
		allowed[i] = string(w)
	}
	r.bad(p, n, "%s", unknown(what, text, allowed))
	return ""
}

func (r *reader) scope(p path, n *yaml.Node) toolkit.Scope {
	s := word(r, p, n, "scope", toolkit.ScopeMeta, "session", toolkit.ScopeExternal)
	if s == "session" {
		return toolkit.ScopeMeta
	}
	return s
}
