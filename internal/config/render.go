package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/toolwire/toolwire/toolkit"
)

// String is the change on one line for people: a sign, what, its name, and what is different. It
// is fit for a terminal: text that others wrote is quoted.
func (c Change) String() string {
	what := c.Kind + " " + printable(c.Name)
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
	case strings.HasPrefix(d.Field, presetField) || isSchema(d.Field):
		return d.Field + " " + map[Op]string{Add: "set", Alter: "changed", Remove: "removed"}[d.Op]
	case whole == Add:
		return d.Field + " " + d.legible(d.New)
	case !ordinal(d.Field) && isList(d.Old, &from) && isList(d.New, &to) && len(from)+len(to) > 0:
		more, less := listDifference(from, to)
		signed := make([]string, 0, len(more)+len(less))
		for _, name := range more {
			signed = append(signed, "+"+legibleWord(name))
		}
		for _, name := range less {
			signed = append(signed, "-"+legibleWord(name))
		}
		return d.Field + " " + strings.Join(signed, " ")
	}
	return d.Field + " " + d.legible(d.Old) + " → " + d.legible(d.New)
}

// isSchema says whether a field has a JSON Schema, which is too long for a line.
func isSchema(field string) bool {
	return field == "extended" || field == "inputSchema" || field == "outputSchema"
}

// ordinal says whether the order of a field's list means something.
func ordinal(field string) bool { return field == settingDirectories || field == settingOrder }

// isList says whether raw is a list of texts, or nothing.
func isList(raw json.RawMessage, into *[]string) bool {
	return json.Unmarshal(raw, into) == nil || raw == nil
}

// legible is a value of the field for people.
func (d Detail) legible(raw json.RawMessage) string {
	var s string
	var list []string
	var rungs []toolkit.Rung
	switch {
	case raw == nil:
		return "unset"
	case json.Unmarshal(raw, &s) == nil && (d.Field == "timeout" || d.Field == "expires"):
		return short(s)
	case json.Unmarshal(raw, &s) == nil:
		return legibleWord(s)
	case json.Unmarshal(raw, &list) == nil && len(list) > 0:
		for i := range list {
			list[i] = legibleWord(list[i])
		}
		return strings.Join(list, " ")
	case json.Unmarshal(raw, &rungs) == nil && len(rungs) > 0:
		return rungsText(rungs)
	}
	return string(raw)
}

// rungsText is who is asked, one after the other.
func rungsText(rungs []toolkit.Rung) string {
	all := make([]string, len(rungs))
	for i, r := range rungs {
		words := make([]string, 0, len(r.Roles)+2)
		for _, role := range r.Roles {
			words = append(words, legibleWord(role))
		}
		if r.Quorum > 1 {
			words = append(words, fmt.Sprintf("quorum %d", r.Quorum))
		}
		if r.Expires > 0 {
			words = append(words, "for "+short(time.Duration(r.Expires).String()))
		}
		all[i] = strings.Join(words, " ")
	}
	return strings.Join(all, ", then ")
}

// printable is the whole of a name: a rule is judged by all of its text. It is quoted if it has
// characters that do not print.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

var simple = regexp.MustCompile(`^[a-zA-Z0-9_.*/-]+$`)

// legibleWord is a text, in quotes unless it is one word, and cut if it is long.
func legibleWord(s string) string {
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
