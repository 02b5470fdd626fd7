package permission

import (
	"path"
	"strings"
)

// name is the program without its directory, in lower case, for some file systems do not tell cases apart.
func (c command) name() string {
	if len(c.words) == 0 || c.redirect {
		return ""
	}
	return foldCase(path.Base(c.words[0].text))
}

// is says whether the program is one of a list of names between blanks.
func (c command) is(list string) bool {
	n := c.name()
	for name := range strings.FieldsSeq(list) {
		if name == n {
			return true
		}
	}
	return false
}

const (
	// shells take a script as an argument, or from their input.
	shells = "sh bash dash ash zsh ksh ksh93 mksh fish csh tcsh rbash"
	// wrappers run the command in their arguments.
	wrappers = "sudo doas env nohup time timeout nice ionice chrt taskset stdbuf setsid command builtin exec xargs parallel " +
		"chroot watch strace ltrace unshare nsenter flock su runuser busybox toybox script ssh entr setarch firejail bwrap " +
		"systemd-run pkexec setpriv capsh proot faketime unbuffer rlwrap gosu su-exec tini dumb-init"
	// feeders run it with arguments, or as many commands, that come from elsewhere.
	feeders = "xargs parallel entr"
	// texters take it as one text.
	texters = "su runuser script watch parallel flock ssh env systemd-run"
	// finders run it after -exec.
	finders = "find fd fdfind"
	// changers make later words mean something else, or run what is in a file.
	changers = ". source alias trap bind complete compgen enable hash fc mapfile readarray"
	// evaluators are builtins that evaluate the subscript in a name.
	evaluators = "printf read unset declare typeset export local readonly nameref test [ wait getopts let"
)

// inner looks for what the arguments of a command run.
func (s *script) inner(c command, nested int) {
	if len(c.words) == 0 || c.redirect {
		return
	}
	s.runs(c.words, nested)
	if c.is("git") && gitSettings(c.argumentTexts()) {
		s.obscure("git is given settings that may run other programs")
	}
	for _, w := range c.words[1:] {
		if c.is(evaluators) && strings.Contains(w.text, "[") && strings.ContainsAny(w.text, "$`") {
			s.obscure("a subscript may run a command")
		}
	}
	if (len(c.words) > maxWords || len(s.commands) > maxCommands) && (c.is(wrappers) || c.is(finders)) {
		s.obscure("it runs too many commands")
		return
	}
	for i := range c.words[1:] {
		flag, rest := c.words[i].text, command{words: c.words[i+1:], argument: true}
		switch {
		case c.is(wrappers):
			s.argument(c, rest, nested)
		case c.is(finders) && i > 0 && (strings.HasPrefix(flag, "-exec") || strings.HasPrefix(flag, "-ok") ||
			strings.HasPrefix(flag, "--exec") || c.name() != "find" && (strings.HasPrefix(flag, "-x") || strings.HasPrefix(flag, "-X"))):
			s.commands = append(s.commands, rest)
			s.runs(rest.words, nested)
			if rest.is(wrappers) {
				s.inner(rest, nested)
			}
		}
	}
}

// argument takes a word of a wrapper's arguments, from which a command might begin.
func (s *script) argument(c, rest command, nested int) {
	text := rest.words[0].text
	if c.is(feeders) && (rest.is(shells) || rest.is(wrappers) || strings.HasPrefix(text, "-I") || strings.HasPrefix(text, "-i") ||
		strings.HasPrefix(text, "--replace") || c.name() != "xargs" && strings.Contains(text, " ")) {
		s.obscure("what it runs comes from elsewhere")
	}
	if !strings.HasPrefix(text, "-") {
		s.commands = append(s.commands, rest)
		s.runs(rest.words, nested)
	}
	if c.is(texters) && strings.ContainsAny(text, " ;&|\n`$(<>") {
		text = strings.TrimPrefix(strings.TrimPrefix(text, "-S"), "--split-string=")
		s.merge(parseScript(text, nested+1), true)
	}
}

// runs takes the script out of the arguments of a shell or eval.
func (s *script) runs(words []word, nested int) {
	c := command{words: words}
	switch {
	case c.is(changers):
		s.obscure("it changes what commands mean")
	case c.is("eval"):
		var parts []string
		for _, w := range words[1:] {
			if !w.static() {
				s.obscure("it evaluates what is known only to the shell")
				return
			}
			parts = append(parts, w.text)
		}
		s.merge(parseScript(strings.Join(parts, " "), nested+1), false)
	case c.is(shells):
		s.shell(words[1:], nested)
	}
}

// shell follows the arguments of a shell: a script after -c, a file, or else its input.
func (s *script) shell(args []word, nested int) {
	inline := false
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case !a.static():
			s.obscure("it runs a script that is known only to the shell")
			return
		case a.text == "--" || a.text == "-":
			continue
		case a.text == "-o" || a.text == "+o" || a.text == "-O" || a.text == "+O" || a.text == "--rcfile" || a.text == "--init-file":
			i++
		case strings.HasPrefix(a.text, "--"):
		case strings.HasPrefix(a.text, "-") || strings.HasPrefix(a.text, "+"):
			if strings.Contains(a.text, "s") {
				s.obscure("a shell reads its commands from elsewhere")
			}
			inline = inline || strings.HasPrefix(a.text, "-") && strings.Contains(a.text, "c")
		case inline:
			s.merge(parseScript(a.text, nested+1), false)
			return
		case strings.HasPrefix(path.Clean(a.text), "/dev/") || strings.HasPrefix(path.Clean(a.text), "/proc/"):
			s.obscure("a shell reads its commands from elsewhere")
			return
		default:
			return // a file
		}
	}
	s.obscure("a shell reads its commands from elsewhere")
}

func (s *script) merge(inner script, argument bool) {
	for _, c := range inner.commands {
		c.argument = c.argument || argument
		s.commands = append(s.commands, c)
	}
	if inner.opaque != "" {
		s.obscure(inner.opaque)
	}
}
