package permission

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// changing are the commands whose arguments are what they change.
const changing = "rm mv cp chmod chown chgrp touch ln sed mkdir rmdir tee dd install truncate rsync unlink shred patch scp"

// dangerousCommand knows the commands that are always asked about.
func dangerousCommand(c command) string {
	_, flags := splitFlags(c.argumentTexts())
	danger := func(what string) string { return what + " is a dangerous command." }
	switch {
	case c.redirect:
		if t := c.words[1]; strings.HasPrefix(t.text, "/dev/") && !harmlessDevice(t.text) {
			return danger("Writing to or from " + strconv.Quote(t.text))
		}
		return ""
	case c.is("dd fdisk sfdisk format mkfs") || strings.HasPrefix(c.name(), "mkfs."):
		return danger(c.name())
	case c.is("rm") && (hasFlag(flags, "-r") || hasFlag(flags, "-R") || hasFlag(flags, "--recursive")) && (hasFlag(flags, "-f") || hasFlag(flags, "--force")):
		return danger("rm -rf")
	case c.is("chmod") && slices.ContainsFunc(c.words[1:], func(w word) bool { return openMode(w.text) }):
		return danger("chmod 777")
	case c.is("chown") && (hasFlag(flags, "-R") || hasFlag(flags, "--recursive")):
		return danger("chown -R")
	case c.is("kill killall pkill") && killing(c.argumentTexts()):
		return danger("kill -9")
	case c.is("sudo doas") && slices.ContainsFunc(c.words[1:], func(w word) bool { return path.Base(w.text) == "rm" }):
		return danger("sudo rm")
	}
	return dangerousText(c)
}

// dangerousText looks for the same in the words themselves, for who knows what they are given to.
func dangerousText(c command) string {
	parts := c.argumentTexts()
	if !c.readOnly() {
		for _, w := range c.fed {
			parts = append(parts, w.text)
		}
	}
	text := foldCase(strings.Join(strings.Fields(strings.Join(parts, " ")), " "))
	for _, entry := range []string{"rm -rf", "rm -fr", "rm -r -f", "rm -f -r", "sudo rm", "mkfs", "fdisk", "dd if=", "dd of=", "chmod 777", "chmod -r 777", "chown -r", "kill -9"} {
		if containsWords(text, entry) {
			return strconv.Quote(entry) + " is a dangerous command."
		}
	}
	return ""
}

// containsWords says whether text has the entry, not as a part of longer words.
func containsWords(text, entry string) bool {
	part := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '-' }
	for from := 0; ; {
		i := strings.Index(text[from:], entry)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(entry)
		before, n := utf8.DecodeLastRuneInString(text[:start])
		after, m := utf8.DecodeRuneInString(text[end:])
		if (n == 0 || !part(before)) && (m == 0 || !part(after) || strings.HasSuffix(entry, "=")) {
			return true
		}
		from = end
	}
}

func (c command) argumentTexts() []string {
	var out []string
	for i, w := range c.words {
		if i > 0 {
			out = append(out, w.text)
		}
	}
	return out
}

// openMode says whether a mode of chmod lets everybody write: 777, 0777, a+rwx.
func openMode(mode string) bool {
	if n, err := strconv.ParseUint(mode, 8, 32); err == nil {
		return n&0o777 == 0o777
	}
	for clause := range strings.SplitSeq(mode, ",") {
		who, what, found := strings.Cut(clause, "+")
		if !found {
			who, what, found = strings.Cut(clause, "=")
		}
		if found && strings.Trim(who, "ugoa") == "" && strings.ContainsAny(who, "oa") && strings.Contains(what, "w") {
			return true
		}
	}
	return false
}

func killing(args []string) bool {
	for i, a := range args {
		switch s := strings.ToUpper(a); {
		case s == "-9", s == "-KILL", s == "-SIGKILL", s == "-S9", s == "-N9", s == "-SKILL", s == "-SSIGKILL", s == "--SIGNAL=9", s == "--SIGNAL=KILL", s == "--SIGNAL=SIGKILL":
			return true
		case (s == "-S" || s == "-N" || s == "--SIGNAL") && i+1 < len(args):
			if next := strings.ToUpper(args[i+1]); next == "9" || next == "KILL" || next == "SIGKILL" {
				return true
			}
		}
	}
	return false
}

// dangerousPath looks for the dangerous files and directories in what a command changes.
func (m shellMatcher) dangerousPath(c command) string {
	if !c.redirect && !c.is(changing) {
		return ""
	}
	for _, w := range c.words[1:] {
		if w.braces {
			return "What it changes depends on an expansion of braces."
		}
		for _, text := range []string{w.text, afterFlag(w.text)} {
			p := placeOf(homeOf(text), m.base, m.home)
			if entry := m.dangers.find(p.text, w.globs); text != "" && entry != "" {
				return "It changes " + strconv.Quote(text) + ", which is or is in " + entry + "."
			}
		}
	}
	return ""
}

// afterFlag is the path in --flag=path, of=path and -tpath.
func afterFlag(text string) string {
	if _, value, ok := strings.Cut(text, "="); ok {
		return value
	}
	if len(text) > 2 && text[0] == '-' && text[1] != '-' {
		return text[2:]
	}
	return ""
}

// homeOf writes $HOME as ~.
func homeOf(text string) string {
	if rest, ok := strings.CutPrefix(text, "$HOME"); ok && (rest == "" || rest[0] == '/') {
		return "~" + rest
	}
	return text
}

// dangerousRemoval knows what must not be removed unasked, whatever is there.
func (m shellMatcher) dangerousRemoval(c command) string {
	if !c.is("rm rmdir unlink shred") {
		return ""
	}
	ended := false
	for _, w := range c.words[1:] {
		if w.text == "--" && !ended {
			ended = true
			continue
		}
		if !ended && strings.HasPrefix(w.text, "-") {
			continue
		}
		if text := homeOf(w.text); m.vital(text) || text == w.text && w.dynamic && strings.HasPrefix(text, "$") {
			return "It removes " + strconv.Quote(w.text) + "."
		}
	}
	return ""
}

// vital says whether a path is the root, a child of it, a home directory, a working directory, what
// is above it, or everything in a directory.
func (m shellMatcher) vital(text string) bool {
	p := placeOf(text, m.base, m.home)
	clean := path.Clean(text)
	switch {
	case strings.Trim(path.Base(clean), "*?.") == "" && strings.ContainsAny(path.Base(clean), "*?"), clean == "." || clean == ".." || strings.HasSuffix(clean, "/.."):
		return true
	case strings.HasPrefix(clean, "~") && !strings.Contains(clean, "/"), climbs(strings.TrimPrefix(p.text, "~/")):
		return true
	case !p.fixed():
		return false
	case strings.Count(p.text, "/") == 1 || p.text == m.home:
		return true
	}
	return slices.ContainsFunc(m.dirs, func(d string) bool { return (place{text: d}).inside([]string{p.text}) })
}
