package permission_test

import (
	"encoding/json"
	"fmt"

	"github.com/toolwire/toolwire/toolkit/permission"
)

func ExampleEvaluate() {
	def := permission.Tool{Name: "execute_shell_command", Matcher: "shell"}
	rule, err := permission.ParseRule("execute_shell_command(git push:*)")
	if err != nil {
		fmt.Println(err)
		return
	}
	rule.Behavior = permission.Allow
	c := permission.Context{Rules: []permission.Rule{rule}}
	for _, input := range []string{
		`{"command":"git status && git push origin"}`,
		`{"command":"git push & make install"}`,
		`{"command":"git push; rm -rf /"}`,
	} {
		d := permission.Evaluate(c, def, json.RawMessage(input), nil)
		fmt.Println(d, d.Suggestions)
	}
	// Output:
	// allow: rule execute_shell_command(git push:*) []
	// ask: mode default [execute_shell_command(git push:*) execute_shell_command(make install:*)]
	// ask: safety: tool check [execute_shell_command(git push:*)]
}
