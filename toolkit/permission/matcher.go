package permission

import (
	"encoding/json"
	"slices"
	"strings"
)

// verdict says whether a deny or ask rule is about a call. Unsure is treated as an ask.
type verdict int

const (
	miss verdict = iota
	unsure
	hit
)

// matcher knows what the arguments of a call mean.
type matcher interface {
	// refuses says whether a deny or ask rule with this content is about the call.
	refuses(content string) verdict
	// covers gives the indexes of the contents of allow rules that together cover the whole call.
	covers(contents []string) ([]int, bool)
	// readOnly says whether the call is known to change nothing.
	readOnly() bool
	// check is the tool's own opinion; edits: changes inside the working directories are welcome.
	check(edits bool) Check
	// suggest gives the contents of rules that would cover the call; false: none narrower than
	// the whole tool.
	suggest() ([]string, bool)
}

func matcherFor(c Context, def Tool, input json.RawMessage, own *Check) matcher {
	kind, args, _ := strings.Cut(def.Matcher, ":")
	switch {
	case def.Matcher == "":
		return plain{own}
	case kind == "path":
		return newPathMatcher(c, def, input, names(args))
	case kind == "shell":
		return newShellMatcher(c, def, input, args)
	case kind == "field" && args != "":
		return newFieldMatcher(def, input, args)
	}
	return plain{own}
}

// NeedsCheck says whether the tool has a check or matcher of its own, which must be asked for every
// call; an ask that gets no answer is Evaluate's with a nil Check.
func NeedsCheck(def Tool) bool {
	kind, args, _ := strings.Cut(def.Matcher, ":")
	return def.Matcher != "" && kind != "path" && kind != "shell" && (kind != "field" || args == "")
}

func names(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(s string) bool { return s == "" })
}

// plain knows nothing of the arguments but what the tool says itself.
type plain struct{ own *Check }

func (p plain) refuses(content string) verdict {
	if p.own == nil {
		return unsure
	}
	matches, known := p.own.Matches[content]
	switch {
	case !known:
		return unsure
	case matches:
		return hit
	}
	return miss
}

func (p plain) covers(contents []string) ([]int, bool) {
	if p.own == nil {
		return nil, false
	}
	i := slices.IndexFunc(contents, func(c string) bool { return p.own.Matches[c] })
	return []int{i}, i >= 0
}

func (plain) readOnly() bool              { return false }
func (plain) check(bool) Check            { return Check{} }
func (p plain) suggest() ([]string, bool) { return nil, false }

// wildcard is a pattern in which * is any text, \* a star and \\ a backslash.
type wildcard string

// match compares the whole text; fold: without regard to case. It takes time in the order of the
// product of both lengths at worst.
func (w wildcard) match(text string, fold bool) bool {
	if fold {
		return glob(tokens(foldCase(string(w))), []rune(foldCase(text)))
	}
	return glob(tokens(string(w)), []rune(text))
}

const anyText = rune(-1)

func tokens(pattern string) []rune {
	var out []rune
	escaped := false
	for _, r := range pattern {
		switch {
		case escaped && r != '*' && r != '\\':
			out = append(out, '\\', r)
			escaped = false
		case escaped:
			out = append(out, r)
			escaped = false
		case r == '\\':
			escaped = true
		case r == '*' && (len(out) == 0 || out[len(out)-1] != anyText):
			out = append(out, anyText)
		case r != '*':
			out = append(out, r)
		}
	}
	if escaped {
		out = append(out, '\\')
	}
	return out
}

func glob(pattern, text []rune) bool {
	p, t, star, from := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == anyText:
			star, from = p, t
			p++
		case p < len(pattern) && pattern[p] == text[t]:
			p++
			t++
		case star >= 0:
			from++
			p, t = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == anyText {
		p++
	}
	return p == len(pattern)
}

// hasWildcard says whether the pattern has a star that is not escaped.
func hasWildcard(pattern string) bool { return slices.Contains(tokens(pattern), anyText) }

// escape writes text so that a pattern of it matches nothing else.
func escape(text string) string { return strings.NewReplacer(`\`, `\\`, `*`, `\*`).Replace(text) }

// unescape is the text of a pattern without stars.
func unescape(pattern string) string { return string(tokens(pattern)) }

// foldCase makes texts equal that differ in case only, as file systems see it.
func foldCase(s string) string { return strings.ToLower(strings.ToUpper(s)) }
