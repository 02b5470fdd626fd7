package permission

import (
	"path"
	"slices"
	"strings"
)

// text is the command in its one form: single blanks, quotes only where they are needed. Assignments
// that do no harm are left out.
func (c command) text() string {
	var parts []string
	if !c.safeAssigns() || len(c.words) == 0 {
		for _, a := range c.assigns {
			parts = append(parts, requote(a))
		}
	}
	for i, w := range c.words {
		if i == 0 && c.redirect {
			parts = append(parts, w.text)
			continue
		}
		parts = append(parts, requote(w))
	}
	return strings.Join(parts, " ")
}

// requote quotes what would be more than a word otherwise.
func requote(w word) string {
	if w.text == "" || strings.ContainsAny(w.text, " \t\n'\"\\;&|<>()`#") || !w.dynamic && strings.Contains(w.text, "$") {
		return "'" + strings.ReplaceAll(w.text, "'", `'\''`) + "'"
	}
	return w.text
}

// texts are the forms in which deny and ask rules look for a text.
func (c command) texts() []string {
	join := func(words []word) string {
		parts := make([]string, len(words))
		for i, w := range words {
			parts[i] = w.text
		}
		return strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
	}
	plain := join(c.words)
	out := []string{plain, c.text()}
	if len(c.words) > 0 && strings.Contains(c.words[0].text, "/") && !c.redirect {
		base := slices.Clone(c.words)
		base[0].text = path.Base(base[0].text)
		out = append(out, join(base))
	}
	if len(c.assigns) > 0 {
		out = append(out, join(c.assigns)+" "+plain)
	}
	if len(c.reads) > 0 {
		out = append(out, plain+" < "+join(c.reads))
	}
	if len(c.fed) > 0 {
		out = append(out, plain+" << "+join(c.fed))
	}
	return out
}

// safeAssigns says whether the assignments before the command change nothing about what it does.
func (c command) safeAssigns() bool {
	return !slices.ContainsFunc(c.assigns, func(a word) bool {
		name, _, ok := strings.Cut(a.text, "=")
		return !ok || a.dynamic || !strings.HasPrefix(name, "LC_") && !slices.Contains(strings.Fields(
			"LANG LANGUAGE TZ NO_COLOR FORCE_COLOR CLICOLOR COLUMNS LINES CI GOOS GOARCH CGO_ENABLED RUST_BACKTRACE PYTHONUNBUFFERED NODE_ENV"), name)
	})
}

// dynamic says whether any word is known only to the shell.
func (c command) dynamic() bool {
	return slices.ContainsFunc(c.words, func(w word) bool { return !w.static() }) ||
		slices.ContainsFunc(c.assigns, func(w word) bool { return w.dynamic })
}

// shellPattern is the content of a rule: a prefix, a text with stars, or a text.
type shellPattern struct {
	prefix []string // words, if it is a prefix without stars
	stars  []wildcard
	text   string
}

func patternFor(content string) shellPattern {
	content = strings.TrimSpace(content)
	if prefix, ok := strings.CutSuffix(content, ":*"); ok {
		if !hasWildcard(prefix) {
			return shellPattern{prefix: strings.Fields(unescape(prefix)), text: unescape(prefix)}
		}
		return shellPattern{stars: []wildcard{wildcard(prefix), wildcard(prefix + " *")}}
	}
	if hasWildcard(content) {
		p := shellPattern{stars: []wildcard{wildcard(content)}}
		if bare, ok := strings.CutSuffix(content, " *"); ok {
			p.stars = append(p.stars, wildcard(bare))
		}
		return p
	}
	return shellPattern{text: unescape(content)}
}

// covers is the comparison of allow rules: exact, and by words.
func (p shellPattern) covers(c command) bool {
	switch {
	case p.prefix != nil:
		if !c.safeAssigns() || len(p.prefix) == 0 || len(c.words) < len(p.prefix) {
			return false
		}
		for i, want := range p.prefix {
			if w := c.words[i]; w.text != want || !w.static() && !c.redirect {
				return false
			}
		}
		return true
	case p.stars != nil:
		text := c.text()
		return slices.ContainsFunc(p.stars, func(w wildcard) bool { return w.match(text, false) })
	}
	// The rule may be written with other quotes than ours.
	if s := parseScript(p.text, 0); s.opaque == "" && len(s.commands) == 1 {
		return s.commands[0].text() == c.text()
	}
	return strings.Join(strings.Fields(p.text), " ") == c.text()
}

// refuses is the comparison of deny and ask rules: without regard to case, the directory of the
// program, assignments before it and the order of flags.
func (p shellPattern) refuses(c command) verdict {
	if p.prefix != nil {
		return p.refusesWords(c)
	}
	doubt := verdictIf(c.dynamic())
	for _, text := range c.texts() {
		for _, w := range p.stars {
			if w.match(text, true) {
				return hit
			}
		}
		if p.stars == nil && strings.Contains(foldCase(text), foldCase(strings.Join(strings.Fields(p.text), " "))) {
			return hit
		}
	}
	return doubt
}

func (p shellPattern) refusesWords(c command) verdict {
	if len(p.prefix) == 0 {
		return hit
	}
	if len(c.words) == 0 {
		return miss
	}
	head := foldCase(p.prefix[0])
	if v := p.from(c.words, head); v != miss || c.redirect {
		return v
	}
	// A program that nobody here knows may run what is in its arguments.
	if c.argument || c.harmless() || c.readOnly() || len(c.words) > maxWords {
		return miss
	}
	message := c.is("git") && slices.ContainsFunc(c.words, func(w word) bool { return w.text == "commit" })
	for i, w := range c.words[1:] {
		value := foldCase(path.Base(afterFlag(w.text))) // make SHELL=x
		if p.from(c.words[i+1:], head) == hit || value == head || !message && mentions(w.text, head) {
			return unsure
		}
	}
	for _, w := range c.fed {
		if !message && containsWords(foldCase(w.text), head) {
			return unsure
		}
	}
	return miss
}

// mentions says whether a text of more than one word, which may be a script, has the program's name.
func mentions(text, head string) bool {
	return strings.ContainsAny(text, " \t\n;&|(`") && containsWords(foldCase(text), head)
}

func (p shellPattern) from(words []word, head string) verdict {
	if !words[0].static() {
		return unsure
	}
	if name := foldCase(words[0].text); name != head && path.Base(name) != head {
		return miss
	}
	var texts []string
	dynamic := false
	for _, w := range words[1:] {
		texts = append(texts, w.text)
		dynamic = dynamic || !w.static()
	}
	wantPlain, wantFlags := splitFlags(p.prefix[1:])
	plain, flags := splitFlags(texts)
	for _, f := range wantFlags {
		if !hasFlag(flags, f) {
			return verdictIf(dynamic)
		}
	}
	if len(plain) >= len(wantPlain) && slices.EqualFunc(wantPlain, plain[:len(wantPlain)], strings.EqualFold) {
		return hit
	}
	// With other words between: they may be values of flags, or mean something else.
	i := 0
	for _, w := range plain {
		if i < len(wantPlain) && strings.EqualFold(w, wantPlain[i]) {
			i++
		}
	}
	return verdictIf(dynamic || i == len(wantPlain))
}

// splitFlags tells the flags of a command from the rest.
func splitFlags(words []string) (plain, flags []string) {
	for _, w := range words {
		if len(w) > 1 && w[0] == '-' {
			flags = append(flags, w)
		} else {
			plain = append(plain, w)
		}
	}
	return plain, flags
}

// hasFlag knows --flag=value, long flags cut short, and -rf as -r and -f in any place.
func hasFlag(flags []string, want string) bool {
	for _, have := range flags {
		name, _, _ := strings.Cut(have, "=")
		if name == want || len(name) > 3 && strings.HasPrefix(name, "--") && strings.HasPrefix(want, name) {
			return true
		}
	}
	if strings.HasPrefix(want, "--") {
		return false
	}
	letters := func(r rune) bool {
		return !slices.ContainsFunc(flags, func(f string) bool { return !strings.HasPrefix(f, "--") && strings.ContainsRune(f[1:], r) })
	}
	return !strings.ContainsFunc(want[1:], letters)
}
