package permission

import (
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// pathArguments are the names under which tools take files and directories.
func pathArguments() []string {
	return []string{
		"file_path", "filePath", "path", "paths", "files", "file", "filename", "dir_path", "dirPath", "dir",
		"directory", "source", "destination", "src", "dst", "old_path", "new_path", "oldPath", "newPath",
		"notebook_path", "working_directory", "workingDirectory",
	}
}

// pathMatcher compares the paths that a call names, all of them.
type pathMatcher struct {
	places  []place
	base    string   // what relative paths count from, "" if unknown
	home    string   // what ~ is, "" if unknown
	dirs    []string // working directories
	dangers dangers
	doubt   bool // there are paths that could not be read
}

func newPathMatcher(c Context, def Tool, input json.RawMessage, fields []string) pathMatcher {
	args := readArguments(def, input)
	m := pathMatcher{
		base: baseOf(c), home: c.Home, dirs: c.WorkingDirectories, doubt: args.broken,
		dangers: dangersOf(def.DangerousFiles, def.DangerousDirectories),
	}
	known := len(fields) > 0
	if !known {
		fields = pathArguments()
	}
	for _, name := range fields {
		texts, present, sure := args.texts(name)
		_, declared := args.known[name]
		known = known || declared || present
		m.doubt = m.doubt || !sure
		if !present {
			continue
		}
		for _, t := range texts {
			m.places = append(m.places, placeOf(t, m.base, m.home))
		}
	}
	if len(m.places) == 0 && !m.doubt {
		// A tool that searches does so where it is. One without any argument that could be a path has
		// the wrong matcher.
		m.places, m.doubt = []place{placeOf(".", m.base, m.home)}, !known
	}
	return m
}

// baseOf is the directory that relative paths count from, "" if unknown.
func baseOf(c Context) string {
	if len(c.WorkingDirectories) == 0 || !path.IsAbs(c.WorkingDirectories[0]) {
		return ""
	}
	return c.WorkingDirectories[0]
}

func (m pathMatcher) refuses(content string) verdict {
	v := miss
	if m.doubt {
		v = unsure
	}
	for _, p := range m.places {
		v = max(v, m.refusesPlace(content, p))
	}
	return v
}

// refusesPlace compares without regard to case. A pattern without a slash is a name anywhere in the
// path. A place from an unknown directory may be anywhere; and what is done to a directory may
// reach what a pattern means below it.
func (m pathMatcher) refusesPlace(content string, p place) verdict {
	pattern, known := m.pattern(content)
	if !known {
		return unsure
	}
	folded, text := foldCase(pattern), foldCase(p.text)
	if matchPath(folded, text) {
		return hit
	}
	if !strings.Contains(content, "/") {
		for name := range strings.SplitSeq(text, "/") {
			if matchPath(foldCase(content), name) {
				return hit
			}
		}
		return verdictIf(p.odd)
	}
	if strings.HasPrefix(folded, "**") {
		return verdictIf(p.odd)
	}
	top, _ := doublestar.SplitPattern(folded)
	return verdictIf(p.odd || rootOf(pattern) != rootOf(p.text) || text == "." ||
		strings.HasPrefix(top+"/", strings.TrimSuffix(text, "/")+"/"))
}

func verdictIf(doubt bool) verdict {
	if doubt {
		return unsure
	}
	return miss
}

// covers wants every place to match an allow rule, exactly.
func (m pathMatcher) covers(contents []string) ([]int, bool) {
	if m.doubt {
		return nil, false
	}
	var used []int
	for _, p := range m.places {
		i := slices.IndexFunc(contents, func(c string) bool {
			pattern, known := m.pattern(c)
			return known && !p.odd && matchPath(pattern, p.text)
		})
		if i < 0 {
			return nil, false
		}
		used = append(used, i)
	}
	return used, true
}

// pattern cleans the pattern of a rule as paths are, with the same meaning of ~ and of relative ones;
// false if it climbs to nobody knows where, or is no pattern.
func (m pathMatcher) pattern(content string) (string, bool) {
	if !doublestar.ValidatePattern(content) || !affordable(content) {
		return "", false
	}
	if rest, ok := strings.CutPrefix(content, "~"); ok && (rest == "" || rest[0] == '/') {
		if m.home != "" {
			return path.Clean(escapeGlob(m.home) + rest), true
		}
		return path.Clean("~" + path.Clean("/"+rest)), !climbs(path.Clean("." + rest))
	}
	pattern := path.Clean(content)
	switch {
	case path.IsAbs(pattern), strings.HasPrefix(pattern, "**"):
		return pattern, true
	case m.base != "":
		return path.Clean(escapeGlob(m.base) + "/" + pattern), true
	}
	return pattern, !climbs(pattern)
}

// affordable says whether the alternatives of a pattern are few enough to be tried, for their number
// is the product of all groups.
func affordable(pattern string) bool {
	bare := strings.NewReplacer(`\\`, "", `\{`, "", `\,`, "").Replace(pattern)
	return strings.Count(bare, "{") <= 3 && strings.Count(bare, ",") <= 30 || !strings.Contains(bare, "{")
}

// rootOf is what a path or pattern counts from: "/", "~" or "" for an unknown directory.
func rootOf(p string) string {
	if strings.HasPrefix(p, "/") || p == "~" || strings.HasPrefix(p, "~/") {
		return p[:1]
	}
	return ""
}

// matchPath: `/a/**` is /a and all below it, `**` is every path.
func matchPath(pattern, p string) bool {
	if pattern == "**" {
		return true
	}
	ok, err := doublestar.Match(pattern, p)
	return err == nil && ok
}

func (pathMatcher) readOnly() bool { return false }

func (m pathMatcher) check(edits bool) Check {
	inside := !m.doubt
	for _, p := range m.places {
		if entry := m.dangers.find(p.text, false); entry != "" {
			return Check{Behavior: Ask, Immune: true, Message: "The path " + strconv.Quote(p.text) + " is or is in " + entry + ", which is always asked about."}
		}
		inside = inside && p.inside(m.dirs)
	}
	if edits && inside {
		return Check{Behavior: Allow, Message: "All paths are in the working directories."}
	}
	return Check{}
}

// suggest gives, for every path, the directory it is in; the path alone if that is a root.
func (m pathMatcher) suggest() ([]string, bool) {
	if m.doubt {
		return nil, true
	}
	var out []string
	for _, p := range m.places {
		if p.odd || m.dangers.find(p.text, false) != "" {
			continue
		}
		dir := path.Dir(p.text)
		switch {
		case p.inside(m.dirs) && !(place{text: dir}).inside(m.dirs):
			out = append(out, escapeGlob(p.text)+"/**") // a working directory itself
		case dir == "." && p.text == ".":
			out = append(out, "**")
		case dir == ".":
			out = append(out, escapeGlob(p.text))
		case strings.Count(dir, "/") < 2 && rootOf(dir) == "/", dir == "~":
			out = append(out, escapeGlob(p.text))
		default:
			out = append(out, escapeGlob(dir)+"/**")
		}
	}
	return out, true
}

// escapeGlob writes a path so that a pattern of it matches nothing else.
func escapeGlob(p string) string {
	var b strings.Builder
	for _, r := range p {
		if strings.ContainsRune(`*?[]{}\`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
