package permission

import (
	"encoding/json"
	"slices"
	"strings"
)

// defaultShellArgument is the argument that has the command, if the matcher names none.
const defaultShellArgument = "command"

// shellMatcher compares the commands of a text for the shell.
type shellMatcher struct {
	script  script
	doubt   bool     // the argument could not be read
	base    string   // what relative paths count from, "" if unknown
	home    string   // what ~ is, "" if unknown
	dirs    []string // working directories
	dangers dangers
}

func newShellMatcher(c Context, def Tool, input json.RawMessage, field string) shellMatcher {
	if field == "" {
		field = defaultShellArgument
	}
	args := readArguments(def, input)
	m := shellMatcher{
		base: baseOf(c), home: c.Home, dirs: c.WorkingDirectories,
		dangers: dangersOf(def.DangerousFiles, def.DangerousDirectories),
	}
	for _, name := range []string{"working_directory", "workingDirectory", "working_dir", "workdir", "cwd", "dir"} {
		if dir, present, sure := args.text(name); present {
			if p := placeOf(dir, m.base, m.home); sure && p.fixed() {
				m.base = p.text
			} else {
				m.base = ""
			}
		}
	}
	text, present, sure := args.text(field)
	if m.doubt = !sure || !present && len(args.values) > 0; !m.doubt {
		m.script = parseScript(text, 0)
	}
	return m
}

func (m shellMatcher) refuses(content string) verdict {
	if m.doubt || len(m.script.commands) == 0 && m.script.opaque != "" {
		return unsure
	}
	p, v := patternFor(content), miss
	for _, c := range m.script.commands {
		v = max(v, p.refuses(c))
	}
	return v
}

// covers wants every command to match an allow rule, but for those that do nothing by themselves.
func (m shellMatcher) covers(contents []string) ([]int, bool) {
	if m.doubt || m.script.opaque != "" {
		return nil, false
	}
	patterns := make([]shellPattern, len(contents))
	for i, c := range contents {
		patterns[i] = patternFor(c)
	}
	var used []int
	for _, c := range m.script.commands {
		if c.argument {
			continue
		}
		i := slices.IndexFunc(patterns, func(p shellPattern) bool { return p.covers(c) })
		switch {
		case i >= 0:
			used = append(used, i)
		case !c.harmless() && !c.readOnly():
			return nil, false
		}
	}
	return used, len(used) > 0
}

// harmless says whether the command does nothing but print.
func (c command) harmless() bool {
	if len(c.words) == 0 || !c.safeAssigns() || !c.words[0].static() {
		return false
	}
	switch c.words[0].text {
	case "echo", "true", "false":
		return true
	}
	return false
}

func (m shellMatcher) readOnly() bool {
	if m.doubt || m.script.opaque != "" || len(m.script.commands) == 0 {
		return false
	}
	return !slices.ContainsFunc(m.script.commands, func(c command) bool { return !c.readOnly() })
}

// check is agentscope-spec §6.5b: what is not understood, and what is dangerous, asks.
func (m shellMatcher) check(edits bool) Check {
	safety := func(text string) Check { return Check{Behavior: Ask, Immune: true, Message: text} }
	switch {
	case m.doubt:
		return safety("The command could not be read from the arguments.")
	case m.script.opaque != "":
		return safety("What the command does cannot be told: " + m.script.opaque + ".")
	case len(m.script.commands) == 0:
		return Check{}
	case m.readOnly():
		return Check{Behavior: Allow, Message: "The command only reads."}
	}
	for _, c := range m.script.commands {
		if why := m.danger(c); why != "" {
			return safety(why)
		}
	}
	if edits && m.edits() {
		return Check{Behavior: Allow, Message: "The command changes only what is in the working directories."}
	}
	return Check{}
}

// danger says why a command is dangerous, "" if it is not known to be.
func (m shellMatcher) danger(c command) string {
	for _, check := range []func(command) string{dangerousCommand, sedDanger, m.dangerousPath, m.dangerousRemoval} {
		if why := check(c); why != "" {
			return why
		}
	}
	return ""
}

// suggest gives a rule for every command that needs one; none that would not help.
func (m shellMatcher) suggest() ([]string, bool) {
	if m.doubt || m.script.opaque != "" {
		return nil, true
	}
	var out, idle []string
	for _, c := range m.script.commands {
		if c.argument || m.danger(c) != "" {
			continue
		}
		if c.harmless() || c.readOnly() {
			idle = append(idle, c.suggestion())
			continue
		}
		out = append(out, c.suggestion())
	}
	if len(out) == 0 {
		out = idle
	}
	return out, true
}

// suggestion is a prefix where that means something, else exactly the command.
func (c command) suggestion() string {
	exact := escape(c.text())
	if c.redirect || len(c.words) == 0 || !c.safeAssigns() || !c.words[0].static() ||
		c.is(shells) || c.is(wrappers) || c.is(changers) || c.is(changing) || c.is(interpreters) || c.is("eval cd pushd popd find fd sed") ||
		strings.ContainsAny(c.words[0].text, " \t\n'\"\\*") {
		return exact
	}
	name := c.words[0].text
	if len(c.words) > 1 && c.words[1].static() && isSubcommand(c.words[1].text) {
		name += " " + c.words[1].text
	}
	return name + ":*"
}

// interpreters run programs that no prefix tells anything about.
const interpreters = "python python2 python3 perl ruby node deno bun php lua awk gawk mawk nawk osascript pwsh powershell tclsh " +
	"expect java npx bunx pipx uvx"

func isSubcommand(s string) bool {
	return s != "" && s[0] >= 'a' && s[0] <= 'z' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
