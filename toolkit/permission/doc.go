// Package permission judges calls: may this one run, must a person be asked, or is it denied? It is
// a pure function of the rules, the tool's definition and the arguments; it reads no file, asks
// nobody and changes nothing.
//
//	rule, _ := permission.ParseRule("execute_shell_command(git log:*)")
//	rule.Behavior = permission.Allow
//	d := permission.Evaluate(permission.Context{Rules: []permission.Rule{rule}}, def, input, nil)
//	if d.Behavior == permission.Allow { … }
//
// # Order
//
// Deny rules, ask rules, what only reads, the tool's own check, allow rules, and what the mode says
// of the rest. A safety ask ([Decision].Immune) is not overruled by allow rules, nor by the mode
// bypass. In the mode dont_ask every ask is a deny. Without any configuration (the zero [Context])
// a call runs unless the tool's own check asks or denies, or its MCP server is not trusted.
//
// # Doubt
//
// A deny or ask rule that cannot be judged (arguments that are no object, a path that depends on
// where the worker runs, a command whose words are known only to the shell, a tool without a
// matcher) asks a person, as a safety ask; an allow rule that cannot be judged does not apply.
// Deny and ask rules compare without regard to case, allow rules exactly.
//
// # Matchers
//
// What the content of a rule, `Tool(content)`, means is up to the Matcher of the tool's definition:
//
//   - `path`, `path:a,b`: globs (`*` within a name, `**` across) on the path arguments, the usual
//     ones or those named. Paths are cleaned, relative ones count from the first working directory; what
//     symbolic links make of them is for the worker to hold. For deny and ask, a pattern
//     without a slash is a name anywhere in the path. At most three groups {a,b} in a pattern.
//   - `shell`, `shell:name`: commands. `git log:*` is that command with anything after it; a `*` elsewhere is
//     any text; without either, allow means exactly this command, and deny and ask any command
//     that has the text in it. `\*` and `\\` are the characters. A script is split into its
//     commands: deny and ask apply if one matches, allow must cover every one. A redirect that
//     writes is a command of its own, `> file`.
//   - `field:name`: the text of one argument, `*` is any text.
//
// Any other word is a check and matcher of the tool's own; see [Check] and [NeedsCheck].
package permission
