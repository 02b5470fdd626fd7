package permission

import (
	"slices"
	"strings"
)

// edits says whether the script changes only what is in the working directories, by commands that do
// nothing else.
func (m shellMatcher) edits() bool {
	changes := 0
	for _, c := range m.script.commands {
		switch {
		case m.edit(c):
			changes++
		case !c.readOnly():
			return false
		}
	}
	return changes > 0
}

func (m shellMatcher) edit(c command) bool {
	if c.redirect || len(c.words) == 0 || len(c.assigns) > 0 || !slices.Contains([]string{"mkdir", "touch", "rm", "rmdir", "mv", "cp", "sed"}, c.words[0].text) {
		return false
	}
	targets, ended, script := 0, false, c.is("sed")
	for i := 1; i < len(c.words); i++ {
		w := c.words[i]
		switch {
		case w.text == "--" && !ended:
			ended = true
		case !ended && strings.HasPrefix(w.text, "-"):
			if !w.static() || !editFlag(w.text) {
				return false
			}
			if c.is("sed") && strings.HasSuffix(w.text, "e") {
				i++ // the check of sed has seen to it
				script = false
			}
		case script:
			script = false
		case w.dynamic || w.braces || !placeOf(w.text, m.base, m.home).inside(m.dirs):
			return false
		default:
			targets++
		}
	}
	return targets > 0
}

// editFlag knows flags without a value, or with one that is no path to somewhere else.
func editFlag(flag string) bool {
	switch flag {
	case "--recursive", "--force", "--verbose", "--parents", "--no-clobber", "--interactive", "--update", "--archive":
		return true
	}
	return strings.Trim(flag[1:], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
