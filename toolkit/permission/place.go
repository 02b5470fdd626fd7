package permission

import (
	"path"
	"strings"
	"unicode"
)

// place is a path in its one normal form. It is text only: what symbolic links make of it only the
// worker can know, and must hold itself to.
type place struct {
	text string // cleaned; absolute, or from an unknown directory, or from an unknown home (~/x)
	// odd says that nobody can tell from here where this is: it climbs out of a directory that is
	// unknown, or has characters that some systems read differently.
	odd bool
}

const maxPath = 4096 // bytes; longer ones no system takes

// placeOf cleans a path. base is what relative paths count from, home what `~` is; both may be "".
func placeOf(p, base, home string) place {
	if len(p) > maxPath || strings.ContainsFunc(p, unicode.IsControl) || strings.Contains(p, `\`) || strings.Contains(p, "://") {
		return place{p, true}
	}
	if p == "~" || strings.HasPrefix(p, "~/") {
		rest := path.Clean(strings.TrimLeft(p[1:], "/"))
		switch {
		case home != "":
			return place{path.Join(home, rest), false}
		case climbs(rest):
			return place{"~/" + rest, true}
		case rest == ".":
			return place{"~", false}
		}
		return place{"~/" + rest, false}
	}
	odd := strings.HasPrefix(p, "~") // another user's home, or a name
	switch {
	case path.IsAbs(p):
		return place{path.Clean(p), false}
	case base != "":
		return place{path.Join(base, p), odd}
	}
	p = path.Clean(p)
	return place{p, odd || climbs(p)}
}

func climbs(p string) bool { return p == ".." || strings.HasPrefix(p, "../") }

// fixed says whether it is known where the place is.
func (p place) fixed() bool { return !p.odd && strings.HasPrefix(p.text, "/") }

// inside says whether the place is one of dirs or below it.
func (p place) inside(dirs []string) bool {
	if !p.fixed() {
		return false
	}
	for _, d := range dirs {
		if d = path.Clean(d); path.IsAbs(d) && (p.text == d || d == "/" || strings.HasPrefix(p.text, d+"/")) {
			return true
		}
	}
	return false
}

// dangers are the files and directories whose change is always asked about.
type dangers struct{ files, directories []string }

// withoutDefaults, as an entry of a definition's list, leaves the defaults out.
const withoutDefaults = "!defaults"

// dangersOf is what a definition's lists say: nil are the defaults, an empty list is none, and entries
// add to the defaults unless one of them is `!defaults`.
func dangersOf(files, directories []string) dangers {
	return dangers{withDefaults(files, defaultFiles()), withDefaults(directories, defaultDirectories())}
}

func withDefaults(list, defaults []string) []string {
	if list == nil {
		return defaults
	}
	out, add := make([]string, 0, len(list)+len(defaults)), len(list) > 0
	for _, entry := range list {
		if entry == withoutDefaults {
			add = false
			continue
		}
		out = append(out, entry)
	}
	if add {
		out = append(out, defaults...)
	}
	return out
}

func defaultFiles() []string {
	return []string{
		".gitconfig", ".gitmodules", ".bashrc", ".bash_profile", ".zshrc", ".zprofile", ".profile",
		".ssh/config", ".ssh/authorized_keys", ".netrc", ".npmrc", ".pypirc", ".env", ".envrc", ".env.local",
		".env.development", ".env.development.local", ".env.test", ".env.test.local", ".env.staging",
		".env.production", ".env.production.local",
	}
}

func defaultDirectories() []string { return []string{".git", ".vscode", ".idea", ".ssh"} }

// find gives the entry that the path is about, "" if there is none. Case, invisible characters, and
// dots and blanks at the end of names do not count, for there are file systems to which they do not.
// An entry with slashes is the end of a path if it is a file, and a part of it if it is a directory;
// an absolute directory is that and all below. With globs, names that begin with a dot are patterns.
func (d dangers) find(p string, globs bool) string {
	segments := strings.FieldsFunc(foldPath(p), func(r rune) bool { return r == '/' || r == '\\' })
	for _, f := range d.files {
		want := splitEntry(f)
		if n := len(want); n > 0 && len(segments) >= n && sameNames(segments[len(segments)-n:], want, globs) {
			return f
		}
	}
	for _, dir := range d.directories {
		want := splitEntry(dir)
		for i := 0; len(want) > 0 && i+len(want) <= len(segments); i++ {
			if sameNames(segments[i:i+len(want)], want, globs) {
				return dir
			}
			if path.IsAbs(dir) {
				break
			}
		}
	}
	return ""
}

func splitEntry(entry string) []string {
	return strings.FieldsFunc(foldPath(entry), func(r rune) bool { return r == '/' || r == '\\' })
}

func sameNames(names, want []string, globs bool) bool {
	for i, n := range names {
		n, _, _ = strings.Cut(n, ":") // a stream of the file
		if n = strings.TrimRight(n, ". "); n == strings.TrimRight(want[i], ". ") {
			continue
		}
		if !globs || !strings.HasPrefix(n, ".") || !strings.ContainsAny(n, "*?[") {
			return false
		}
		// The first dot is literal, as shells have it. A pattern that is none matches nothing.
		if ok, err := path.Match(names[i], want[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

func foldPath(p string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r) {
			return -1
		}
		return r
	}, foldCase(p))
}
