package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/show"
	"github.com/toolwire/toolwire/toolkit"
)

// exportFunc makes tools ready for the API of a model.
type exportFunc = func([]toolkit.Definition) toolkit.Exported

// formats are the values of --format.
func formats() []string { return []string{"mcp", "openai", "responses", "anthropic"} }

func formatFlag(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVar(format, "format", "", "print JSON as a model's API wants it: `api` is mcp, openai (Chat Completions), responses (OpenAI's) or anthropic")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats(), cobra.ShellCompDirectiveNoFileComp))
}

// exportFor returns the export of a format; nil for none.
func exportFor(format string) (exportFunc, error) {
	switch format {
	case "":
		return nil, nil //nolint:nilnil // no format was asked for
	case "mcp":
		return toolkit.ExportMCP, nil
	case "openai":
		return toolkit.ExportOpenAI, nil
	case "responses":
		return toolkit.ExportResponses, nil
	case "anthropic":
		return toolkit.ExportAnthropic, nil
	}
	return nil, usagef("format %q; give %s with --format", format, strings.Join(formats(), ", "))
}

// toolsExport prints what a request to a model holds, and on stderr what could not be kept.
func (a *app) toolsExport(ctx context.Context, c *agent.Client, session events.SessionID, export exportFunc) error {
	l, err := c.List(ctx, session)
	if err != nil {
		return err
	}
	e := export(l.Definitions())
	a.remark(e)
	return a.printJSON(e.JSON())
}

func (a *app) remark(e toolkit.Exported) {
	for _, r := range e.Remarks {
		a.note("%s: %s", show.Line(string(r.Tool)), show.Line(r.Text))
	}
}
