package permission

import (
	"regexp"
	"strings"
)

var sedPrint = regexp.MustCompile(`^[0-9]+(,[0-9]+)?p$`)

// sedDanger allows of sed what prints lines and what substitutes, for it can also run commands
// and write files.
func sedDanger(c command) string {
	if !c.is("sed gsed") {
		return ""
	}
	const bad = "This use of sed is not known to be harmless."
	var scripts []string
	quiet, explicit := false, false
	for i := 1; i < len(c.words); i++ {
		w := c.words[i]
		if len(w.text) < 2 || w.text[0] != '-' {
			if !explicit && len(scripts) == 0 {
				if !w.static() {
					return bad
				}
				scripts = append(scripts, w.text)
			}
			continue
		}
		if !w.static() || w.text == "--" {
			return bad
		}
		letters := w.text[1:]
		for j, r := range letters {
			last := j == len(letters)-1
			switch {
			case r == 'n':
				quiet = true
			case r == 'E':
			case r == 'i' && last: // anything after it would be the end of a file's name
			case r == 'e' && last && i+1 < len(c.words) && c.words[i+1].static():
				i++
				explicit = true
				scripts = append(scripts, c.words[i].text)
			default:
				return bad
			}
		}
	}
	for _, s := range scripts {
		if !sedHarmless(s, quiet) {
			return bad
		}
	}
	if len(scripts) == 0 {
		return bad
	}
	return ""
}

// sedHarmless knows `5p`, `1,5p` with -n, and s with the flags g, p and a number.
func sedHarmless(s string, quiet bool) bool {
	s = strings.TrimSpace(s)
	if quiet && sedPrint.MatchString(s) {
		return true
	}
	if len(s) < 4 || s[0] != 's' || !strings.ContainsRune("/|#", rune(s[1])) || strings.ContainsAny(s, "\n\r") {
		return false
	}
	var parts []string
	start, escaped := 2, false
	for i := 2; i < len(s); i++ {
		switch {
		case escaped:
			escaped = false
		case s[i] == '\\':
			escaped = true
		case s[i] == s[1]:
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}
	return len(parts) == 2 && strings.Trim(s[start:], "gp0123456789") == ""
}
