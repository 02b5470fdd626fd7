package permission

import (
	"slices"
	"strings"
)

// readOnly says whether the command is known to change nothing. It must be written plainly: by its
// bare name, with known flags, without assignments that could change what it does.
func (c command) readOnly() bool {
	if c.redirect || len(c.words) == 0 || !c.safeAssigns() || !c.words[0].static() {
		return false
	}
	args := make([]string, 0, len(c.words)-1)
	known := true // what the words are
	for _, w := range c.words[1:] {
		args = append(args, w.text)
		// An expansion, or a glob that comes first, may turn out to be a flag.
		if w.dynamic || w.braces || w.globs && strings.IndexAny(w.text, "*?[") == 0 {
			known = false
		}
	}
	switch name := c.words[0].text; name {
	case "ls", "cat", "head", "tail", "stat", "wc", "grep", "pwd", "which", "whereis", "type":
		return true
	case "less", "more":
		return known && !slices.ContainsFunc(args, func(a string) bool {
			return strings.HasPrefix(a, "+") || strings.HasPrefix(a, "-") && strings.Trim(a, "-eEFiIMmNnqQRrSsX") != ""
		})
	case "file":
		return known && !hasLetter(args, "C") && !hasLong(args, "compile")
	case "tree":
		return known && !hasLetter(args, "oR") && !hasLong(args, "output")
	case "rg":
		return known && !hasLong(args, "pre", "hostname-bin")
	case "ag", "ack":
		return known && !hasLong(args, "pager", "ackrc", "output", "env")
	case "find":
		return known && !slices.ContainsFunc(args, findWrites)
	case "git":
		return known && gitReads(args)
	default:
		return known && toolReads(name, args)
	}
}

func findWrites(arg string) bool {
	for _, prefix := range []string{"-delete", "-exec", "-ok", "-fls", "-fprint"} {
		if strings.HasPrefix(arg, prefix) {
			return true
		}
	}
	return false
}

// hasLetter says whether a cluster of short flags has one of letters.
func hasLetter(args []string, letters string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		return strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.ContainsAny(a, letters)
	})
}

// hasLong says whether one of the long flags is given, in full or cut short.
func hasLong(args []string, names ...string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		flag, _, _ := strings.Cut(a, "=")
		flag, long := strings.CutPrefix(flag, "--")
		return long && flag != "" && slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, flag) })
	})
}

// toolReads knows the commands that only read among those of bigger tools.
func toolReads(name string, args []string) bool {
	line := strings.Join(args, " ")
	starts := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return line == p || strings.HasPrefix(line, p+" ") })
	}
	switch name {
	case "python", "python3":
		return line == "--version" || line == "-V"
	case "node":
		return line == "--version" || line == "-v"
	case "docker":
		return starts("ps", "images", "inspect", "logs", "version", "info")
	case "gh":
		return starts("repo view", "issue list", "pr list", "pr status", "status") && !hasLong(args, "web") && !hasLetter(args, "w")
	case "npm":
		return starts("list", "ls") && !slices.ContainsFunc(args[1:], func(a string) bool { return strings.HasPrefix(a, "--") && !npmFlag(a) })
	case "pip", "pip3":
		return starts("list", "show") && !slices.ContainsFunc(args[1:], func(a string) bool { return strings.HasPrefix(a, "-") && !pipFlag(a) })
	}
	return false
}

func npmFlag(a string) bool {
	name, _, _ := strings.Cut(a, "=")
	return slices.Contains([]string{"--depth", "--json", "--long", "--parseable", "--all", "--global", "--omit", "--include", "--prod", "--production"}, name)
}

func pipFlag(a string) bool {
	return slices.Contains([]string{
		"-o", "--outdated", "-u", "--uptodate", "-e", "--editable", "-l", "--local", "--user", "--format=json",
		"--format=freeze", "--format=columns", "--not-required", "-f", "--files", "-v", "--verbose",
	}, a)
}
