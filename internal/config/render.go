package config

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// String is the change on one line for people: a sign, what, its name, and what is different. It
// is fit for a terminal: text that others wrote is quoted.
func (c Change) String() string {
	what := c.Kind + " " + c.Name
	if c.Kind == "setting" {
		what = c.Kind
	}
	parts := make([]string, len(c.Fields))
	for i, d := range c.Fields {
		parts[i] = d.in(c.Op)
	}
	line := map[Op]string{Add: "+ ", Alter: "~ ", Remove: "- "}[c.Op] + what
	if len(parts) > 0 {
		line += ": " + strings.Join(parts, "; ")
	}
	return line
}

// in is the detail as part of what is added or altered as a whole.
func (d Detail) in(whole Op) string {
	var from, to []string
	switch {
	case strings.HasPrefix(d.Field, presetField) || d.Field == "extended":
		return d.Field + " " + map[Op]string{Add: "set", Alter: "changed", Remove: "removed"}[d.Op]
	case whole == Add:
		return d.Field + " " + d.legible(d.New)
	case isList(d.Old, &from) && isList(d.New, &to) && len(from)+len(to) > 0:
		more, less := listDifference(from, to)
		signed := make([]string, 0, len(more)+len(less))
		for _, name := range more {
			signed = append(signed, "+"+word(name))
		}
		for _, name := range less {
			signed = append(signed, "-"+word(name))
		}
		return d.Field + " " + strings.Join(signed, " ")
	}
	return d.Field + " " + d.legible(d.Old) + " → " + d.legible(d.New)
}

// isList says whether raw is a list of texts, or nothing.
func isList(raw json.RawMessage, into *[]string) bool {
	return json.Unmarshal(raw, into) == nil || raw == nil
}

// legible is a value of the field for people.
func (d Detail) legible(raw json.RawMessage) string {
	var s string
	var list []string
	switch {
	case raw == nil:
		return "unset"
	case json.Unmarshal(raw, &s) == nil && d.Field == "timeout":
		return short(s)
	case json.Unmarshal(raw, &s) == nil:
		return word(s)
	case json.Unmarshal(raw, &list) == nil && len(list) > 0:
		for i := range list {
			list[i] = word(list[i])
		}
		return strings.Join(list, " ")
	}
	return string(raw)
}

var simple = regexp.MustCompile(`^[a-zA-Z0-9_.*/-]+$`)

// word is a text, in quotes unless it is one word, and cut if it is long.
func word(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		s = string(r[:most-1]) + "…"
	}
	if simple.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

// short is a duration as people write it: 1m, not 1m0s.
func short(s string) string {
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
