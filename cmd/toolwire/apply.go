package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/config"
	"github.com/toolwire/toolwire/internal/show"
	"github.com/toolwire/toolwire/toolkit"
)

type applyFlags struct {
	file        string
	dryRun, yes bool
}

const applyHelp = `Reads the configuration of the installation from a file: groups of tools, what is changed about
single tools, permissions, who approves, and tools that others answer. All of the file is checked first; an error says its line, its column and what is
allowed there. Then the plan is printed, and the whole configuration is put in the place of the one
there, or nothing is. What is not in the file is not in force any more.

Somebody else's change between plan and change is not overwritten: then nothing is changed, the exit
code is 4, and you run it again.

On a terminal it asks before it changes anything; --yes does not ask. With --dry-run nothing is
changed, and the exit code is 0 if nothing would be, 11 if there are changes.

docs/config.md says what may be in the file, examples/toolwire.yaml shows all of it.`

func (a *app) applyCommand() *cobra.Command {
	var f applyFlags
	cmd := &cobra.Command{
		Use: "apply -f <file>", Short: "Apply a toolwire.yaml: groups of tools, their settings, permissions", Long: applyHelp,
		Example: "  toolwire apply -f toolwire.yaml --dry-run\n  toolwire apply -f toolwire.yaml --yes\n  generate | toolwire apply -f - --json",
		GroupID: "use", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.file == "" {
				return usagef("no file given; use it as `%s`, - for stdin", cmd.UseLine())
			}
			return a.apply(cmd.Context(), f)
		},
	}
	fileFlag(cmd, &f.file, "the `file` to apply; - for stdin")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the plan and change nothing; exit code 11 if there are changes")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	a.jsonFlag(cmd)
	return cmd
}

func fileFlag(cmd *cobra.Command, file *string, usage string) {
	cmd.Flags().StringVarP(file, "file", "f", "", usage)
	_ = cmd.MarkFlagFilename("file", "yaml", "yml", "json")
}

func (a *app) apply(ctx context.Context, f applyFlags) error {
	c, err := a.readConfig(f.file)
	if err != nil {
		return err
	}
	return a.withClient(ctx, "apply", func(ctx context.Context, client *agent.Client) error {
		return a.applyConfig(ctx, client, c, f)
	})
}

// readConfig reads and checks a file. What is wrong with it is told, a line each.
func (a *app) readConfig(name string) (toolkit.Config, error) {
	var data []byte
	var err error
	if name == "-" {
		name = "stdin"
		data, err = io.ReadAll(a.in)
	} else {
		data, err = os.ReadFile(name) //nolint:gosec // the file that the user names
	}
	if err != nil {
		return toolkit.Config{}, usagef("%v; give a toolwire.yaml with -f, or - for stdin", err)
	}
	f, err := config.Parse(name, data)
	for _, w := range f.Warnings {
		w.Text = "warning: " + w.Text
		a.note("%s", show.Line(w.String()))
	}
	if all, ok := errors.AsType[*config.ParseError](err); ok {
		for _, p := range all.Problems {
			a.note("%s", show.Line(p.String()))
		}
		what := "1 error"
		if n := len(all.Problems); n > 1 {
			what = fmt.Sprintf("%d errors", n)
		}
		return toolkit.Config{}, usagef("%s in %s; nothing was changed", what, name)
	}
	return f.Config, err
}

// applied is what `apply --json` prints.
type applied struct {
	Revision uint64          `json:"revision"` // in force after the command
	Changes  []config.Change `json:"changes"`
	Applied  bool            `json:"applied"`
}

func (a *app) applyConfig(ctx context.Context, c *agent.Client, to toolkit.Config, f applyFlags) error {
	changes, revision, err := plan(ctx, c, to)
	if err != nil {
		return err
	}
	out := applied{Revision: revision, Changes: append([]config.Change{}, changes...)} // [] in JSON, never null
	if !a.json {
		a.printPlan(changes)
	}
	switch {
	case len(changes) == 0:
		if a.json {
			return a.printJSON(out)
		}
		a.note("no changes")
		return nil
	case f.dryRun:
		if a.json {
			if err := a.printJSON(out); err != nil {
				return err
			}
		}
		return silent(exitPending)
	case !f.yes && f.file != "-" && isTerminal(a.in) && !a.confirm(ctx, len(changes)):
		return &exitError{errors.New("not confirmed; nothing was changed"), exitFailed}
	}
	if out.Revision, err = replaceConfig(ctx, c, revision, to); err != nil {
		return err
	}
	a.noteMissing(to, a.noteMisfits(ctx, c))
	if a.json {
		out.Applied = true
		return a.printJSON(out)
	}
	a.note("applied; the configuration is at revision %d", out.Revision)
	return nil
}

// plan compares what is in force with what is wanted.
func plan(ctx context.Context, c *agent.Client, to toolkit.Config) (changes []config.Change, revision uint64, err error) {
	now, err := c.Config(ctx)
	if err != nil {
		return nil, 0, err
	}
	var from toolkit.Config
	if len(now.Config) > 0 {
		dec := json.NewDecoder(strings.NewReader(string(now.Config)))
		dec.DisallowUnknownFields() // it would be lost
		if err := dec.Decode(&from); err != nil {
			return nil, 0, fmt.Errorf("this version cannot read the configuration in force: %w; apply with the version that wrote it", err)
		}
	}
	changes, err = config.Plan(from, to)
	return changes, now.Revision, err
}

// replaceConfig puts a configuration in the place of the one at a revision.
func replaceConfig(ctx context.Context, c *agent.Client, revision uint64, to toolkit.Config) (uint64, error) {
	now, err := c.SetConfig(ctx, revision, to)
	if errors.Is(err, agent.ErrConflict) {
		return 0, fmt.Errorf("%w: somebody else changed the configuration meanwhile; nothing was changed, run it again", agent.ErrConflict)
	}
	return now, err
}

func (a *app) printPlan(changes []config.Change) {
	for _, c := range changes {
		colour := yellow
		switch c.Op {
		case config.Add:
			colour = green
		case config.Remove:
			colour = red
		case config.Alter:
		}
		a.print("%s\n", a.paint(colour, c.String()))
	}
}

// confirm asks on the terminal. The end of ctx is a no.
func (a *app) confirm(ctx context.Context, changes int) bool {
	_, _ = fmt.Fprintf(a.err, "Changes to make: %d. Make them? [y/N] ", changes)
	answer := make(chan string, 1)
	go func() { // ends with the process at the latest
		line, _ := bufio.NewReader(a.in).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return false
	case s := <-answer:
		return s == "y" || s == "yes"
	}
}

// misfit begins what a dispatcher says of a tool that the configuration does not fit.
const misfit = "the configuration does not fit"

// noteMisfits warns of tools that cannot be called as the configuration wants them, as far as that can
// be found out, and returns the tools that are registered.
func (a *app) noteMisfits(ctx context.Context, c *agent.Client) map[events.ToolName]bool {
	there := make(map[events.ToolName]bool)
	for t, err := range c.Tools(ctx, "") {
		if err != nil {
			return nil
		}
		there[t.Name] = true
		for _, text := range t.Info.Unhealthy {
			if strings.HasPrefix(text, misfit) {
				a.note("warning: %s", show.Line(text))
			}
		}
	}
	return there
}

// noteMissing warns of settings for tools that are not registered: their names may be misspelt.
func (a *app) noteMissing(config toolkit.Config, there map[events.ToolName]bool) {
	var missing []string
	for name := range config.Tools {
		if there != nil && !there[name] {
			missing = append(missing, string(name))
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		a.note("warning: not registered yet, their settings wait for them: %s", strings.Join(missing, ", "))
	}
}
