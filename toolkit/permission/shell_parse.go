package permission

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

const (
	maxScript   = 16 << 10 // bytes; beyond, the parser's recursion and ours could go too deep
	maxWords    = 512      // of a command that runs another
	maxCommands = 1024     // of a script, before what its wrappers run is looked for
	maxNested   = 3        // scripts in arguments of scripts
)

// word is a word of a command without its quotes.
type word struct {
	text    string // expansions as they are written
	dynamic bool   // the shell makes something of it that cannot be told from here
	globs   bool   // it has * ? [ that the shell expands
	braces  bool   // it has { that the shell may expand
}

func (w word) static() bool { return !w.dynamic && !w.globs && !w.braces }

// command is one command of a script, or a redirect that writes, as the words "> file".
type command struct {
	assigns  []word // NAME=value before it
	words    []word
	reads    []word // files that it reads by redirect
	fed      []word // texts that it reads: here-documents
	redirect bool
	// argument: it may be what the arguments of another command run. Deny and ask rules and the
	// dangerous commands see it; allow rules need not.
	argument bool
}

// script is what a text for the shell runs. An opaque one runs more, or something else.
type script struct {
	commands []command
	opaque   string // why, for people; "" if it is not
}

func (s *script) obscure(why string) {
	if s.opaque == "" {
		s.opaque = why
	}
}

// parseScript splits a text into its commands, those in substitutions, loops, and in the arguments of
// shells included.
func parseScript(text string, nested int) (s script) {
	defer func() {
		if recover() != nil { // of the parser
			s.obscure("it cannot be read")
		}
	}()
	switch {
	case len(text) > maxScript:
		s.obscure("it is too long to be looked at")
		return s
	case nested > maxNested:
		s.obscure("scripts are nested too deeply")
		return s
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		s.obscure("it has control characters")
		return s
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		s.obscure("it is no valid shell syntax")
		return s
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		s.node(n)
		return true
	})
	direct := s.commands
	for _, c := range direct {
		s.inner(c, nested)
	}
	return s
}

// node notes a part of the syntax. Whatever is not listed may run what we do not see.
func (s *script) node(n syntax.Node) {
	switch n := n.(type) {
	case nil, *syntax.File, *syntax.CallExpr, *syntax.BinaryCmd, *syntax.Block, *syntax.TimeClause, *syntax.Word,
		*syntax.Lit, *syntax.SglQuoted, *syntax.DblQuoted, *syntax.Redirect, *syntax.Comment, *syntax.DeclClause:
	case *syntax.Stmt:
		s.statement(n)
	case *syntax.Assign:
		if n.Index != nil || n.Array != nil {
			s.obscure("it uses arrays")
		}
	case *syntax.ParamExp:
		if !simple(n) {
			s.obscure("it has an expansion beyond $NAME")
		}
	case *syntax.CmdSubst:
		s.obscure("it has a command substitution")
	case *syntax.ProcSubst:
		s.obscure("it has a process substitution")
	case *syntax.Subshell:
		s.obscure("it has a subshell")
	default:
		s.obscure("it has control structures or arithmetic")
	}
}

func simple(p *syntax.ParamExp) bool {
	return !p.Excl && !p.Length && !p.Width && !p.IsSet && p.Index == nil && p.Slice == nil && p.Repl == nil &&
		p.Names == 0 && p.Exp == nil && p.Flags == nil && p.NestedParam == nil && len(p.Modifiers) == 0 && p.Param != nil
}

func (s *script) statement(stmt *syntax.Stmt) {
	var c command
	switch cmd := stmt.Cmd.(type) {
	case *syntax.CallExpr:
		for _, a := range cmd.Assigns {
			c.assigns = append(c.assigns, assignment(a))
		}
		for _, w := range cmd.Args {
			c.words = append(c.words, wordOf(w))
		}
	case *syntax.DeclClause:
		c.words = append(c.words, word{text: cmd.Variant.Value})
		for _, a := range cmd.Args {
			c.words = append(c.words, assignment(a))
		}
	}
	var writes []command
	for _, r := range stmt.Redirs {
		if r.Word == nil {
			continue
		}
		w := wordOf(r.Word)
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
			if r.Hdoc != nil {
				w = wordOf(r.Hdoc)
			}
			c.fed = append(c.fed, w)
		case syntax.RdrIn, syntax.DplIn:
			c.reads = append(c.reads, w)
			if !w.static() || strings.HasPrefix(path.Clean(w.text), "/dev/") && !harmlessDevice(w.text) {
				writes = append(writes, redirection(w)) // such as /dev/tcp
			}
		default:
			if r.Op == syntax.DplOut && w.static() && strings.Trim(w.text, "0123456789-") == "" {
				continue
			}
			if !w.static() || !harmlessDevice(w.text) {
				writes = append(writes, redirection(w))
			}
		}
	}
	if len(c.words) > 0 || len(c.assigns) > 0 {
		s.commands = append(s.commands, c)
	}
	s.commands = append(s.commands, writes...)
	if len(c.words) > 0 && !c.words[0].static() {
		s.obscure("the name of a command is known only to the shell")
	}
}

// redirection is a redirect as a command. Its path is cleaned, so that rules see where it goes.
func redirection(w word) command {
	if w.text != "" {
		w.text = path.Clean(w.text)
	}
	return command{words: []word{{text: ">"}, w}, redirect: true}
}

func harmlessDevice(p string) bool {
	return slices.Contains([]string{"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"}, p)
}

func assignment(a *syntax.Assign) word {
	w := word{dynamic: a.Index != nil || a.Array != nil || a.Append}
	if a.Value != nil {
		v := wordOf(a.Value)
		w.text, w.dynamic = v.text, w.dynamic || v.dynamic
		w.globs, w.braces = v.globs && a.Name == nil, v.braces && a.Name == nil
	}
	switch {
	case a.Name != nil && a.Naked:
		w.text = a.Name.Value
	case a.Name != nil:
		w.text = a.Name.Value + "=" + w.text
	}
	return w
}

func wordOf(w *syntax.Word) word {
	var out word
	var b strings.Builder
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			literal(&out, &b, p.Value)
		case *syntax.SglQuoted:
			out.dynamic = out.dynamic || p.Dollar && strings.Contains(p.Value, `\`)
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			out.dynamic = out.dynamic || p.Dollar
			for _, q := range p.Parts {
				if lit, ok := q.(*syntax.Lit); ok {
					quotedLiteral(&b, lit.Value)
					continue
				}
				expansion(&out, &b, q)
			}
		default:
			expansion(&out, &b, p)
		}
	}
	out.text = b.String()
	out.globs = out.globs && (strings.ContainsAny(out.text, "*?") || strings.Contains(out.text, "]"))
	out.braces = out.braces && (strings.Contains(out.text, ",") || strings.Contains(out.text, ".."))
	return out
}

func expansion(w *word, b *strings.Builder, part syntax.WordPart) {
	w.dynamic = true
	if p, ok := part.(*syntax.ParamExp); ok && p.Param != nil {
		b.WriteString("$" + p.Param.Value)
		return
	}
	b.WriteString("$()")
}

// literal takes text outside of quotes, where a backslash takes the meaning of any character.
func literal(w *word, b *strings.Builder, text string) {
	escaped := false
	for _, r := range text {
		switch {
		case escaped && r == '\n':
			escaped = false
			continue
		case escaped:
			escaped = false
		case r == '\\':
			escaped = true
			continue
		case r == '*' || r == '?' || r == '[':
			w.globs = true
		case r == '{':
			w.braces = true
		}
		b.WriteRune(r)
	}
}

// quotedLiteral takes text inside of double quotes, where a backslash is one but before a few.
func quotedLiteral(b *strings.Builder, text string) {
	escaped := false
	for _, r := range text {
		switch {
		case escaped && r == '\n':
			escaped = false
			continue
		case escaped:
			if !strings.ContainsRune("$`\"\\", r) {
				b.WriteByte('\\')
			}
			escaped = false
		case r == '\\':
			escaped = true
			continue
		}
		b.WriteRune(r)
	}
	if escaped {
		b.WriteByte('\\')
	}
}
