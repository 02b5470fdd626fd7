package dispatcher

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
)

// resetTools is AgentScope's meta tool: the agent switches its own groups (agentscope-spec §3.3).
// No worker runs it, and no worker may take its name.
const resetTools events.ToolName = "reset_tools"

// control says whether a tool is run by the dispatcher itself, between the stages of a turn.
func control(name events.ToolName) bool { return name == resetTools }

// resetDefinition is the meta tool as the snapshot has it: one boolean for each group that agents
// may switch. It is the same for every session; what is on is in the session's listing.
func (s *snapshot) resetDefinition() toolkit.Definition {
	var b bytes.Buffer
	b.WriteString(`{"type":"object","properties":{`)
	first := true
	for _, g := range s.sorted {
		if !g.Managed() {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		fmt.Fprintf(&b, `%s:{"type":"boolean","default":false,"description":%s}`, quoted(g.Name), quoted(g.describe()))
	}
	b.WriteString(`},"additionalProperties":false}`)
	return toolkit.Definition{
		Name: resetTools,
		Description: "Chooses the groups of tools that you can call from now on. Give true for every group that is to be on: " +
			"a group that you leave out is switched off. Tools in no group can always be called. " +
			"The answer lists what is on, with instructions for what was switched on.",
		InputSchema: b.Bytes(), Idempotent: true,
	}
}

func (g *group) describe() string {
	if g.Description != "" {
		return g.Description
	}
	return "The tools of group " + g.Name + "."
}

// quoted is s as a JSON string.
func quoted(s string) string {
	b, err := events.Marshal(s)
	if err != nil { // not UTF-8
		b, _ = json.Marshal(s) //nolint:errchkjson // a string always marshals
	}
	return string(b)
}

// reset is what reset_tools makes of a session's groups: final state, groups of application code
// untouched. A wrong argument is an error for the model, and changes nothing.
func (s *snapshot) reset(now []string, input json.RawMessage) (active []string, text string, err error) {
	wanted, err := s.wanted(input)
	if err != nil {
		return nil, "", err
	}
	var added []*group
	for _, g := range s.sorted {
		was := slices.Contains(now, g.Name)
		on := was
		if g.Managed() {
			on = wanted[g.Name]
		}
		if on {
			active = append(active, g.Name)
		}
		if on && !was {
			added = append(added, g)
		}
	}
	return active, resetText(active, added), nil
}

// wanted reads the arguments of reset_tools: a boolean per group, or AgentScope's other form,
// {"to_activate":[names]}.
func (s *snapshot) wanted(input json.RawMessage) (map[string]bool, error) {
	v, err := events.ReadJSON(input)
	if err != nil {
		return nil, inputError("the arguments are not valid JSON")
	}
	args, ok := v.(map[string]any)
	if !ok {
		return nil, inputError("the arguments must be an object with a boolean for each group")
	}
	if list, ok := args["to_activate"]; ok && len(args) == 1 && s.groups["to_activate"] == nil {
		return s.toActivate(list)
	}
	wanted := make(map[string]bool, len(args))
	var unknown, wrong []string
	for name, v := range args {
		on, ok := v.(bool)
		switch {
		case !s.switchable(name):
			unknown = append(unknown, name)
		case !ok:
			wrong = append(wrong, name)
		default:
			wanted[name] = on
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return nil, inputError(fmt.Sprintf("must be true or false: %s", strings.Join(wrong, ", ")))
	}
	return wanted, s.strangers(unknown)
}

func (s *snapshot) toActivate(v any) (map[string]bool, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, inputError("to_activate must be a list of names of groups")
	}
	wanted := make(map[string]bool, len(list))
	var unknown []string
	for _, e := range list {
		name, ok := e.(string)
		if !ok {
			return nil, inputError("to_activate must be a list of names of groups")
		}
		if !s.switchable(name) {
			unknown = append(unknown, name)
		}
		wanted[name] = true
	}
	return wanted, s.strangers(unknown)
}

// switchable says whether agents may switch a group of that name.
func (s *snapshot) switchable(name string) bool {
	g := s.groups[name]
	return g != nil && g.Managed()
}

// strangers is the error about names that are no groups an agent may switch; nil if there are none.
func (s *snapshot) strangers(unknown []string) error {
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	var there []string
	for _, g := range s.sorted {
		if g.Managed() {
			there = append(there, g.Name)
		}
	}
	return inputError(fmt.Sprintf("no such group: %s; there are: %s", jet.OneLine(strings.Join(unknown, ", ")), strings.Join(there, ", ")))
}

func inputError(what string) error {
	return &toolkit.InputError{Text: "No group was switched: " + what + ". Correct the arguments and call " + string(resetTools) + " again."}
}

// resetText is what the model reads of a reset: all that is on, and what to know about what
// was switched on.
func resetText(active []string, added []*group) string {
	if len(active) == 0 {
		return "All groups of tools are off now. Tools in no group can be called as before."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Active groups of tools: %s.", strings.Join(active, ", "))
	told := slices.ContainsFunc(added, func(g *group) bool { return g.Instructions != "" })
	for _, g := range added {
		fmt.Fprintf(&b, "\n- %s, switched on now: %s", g.Name, g.describe())
	}
	if !told {
		return b.String()
	}
	b.WriteString("\n<tool-instructions>\n")
	for _, g := range added {
		if g.Instructions != "" {
			fmt.Fprintf(&b, "<group name=%q>\n%s\n</group>\n", g.Name, g.Instructions)
		}
	}
	b.WriteString("</tool-instructions>")
	return b.String()
}

// inactiveText says to a model which group a tool is in, and how to switch it on.
func inactiveText(t *tool, s *snapshot) string {
	names := make([]string, len(t.groups))
	own := ""
	for i, g := range t.groups {
		names[i] = fmt.Sprintf("%q", g.Name)
		if own == "" && g.Managed() {
			own = g.Name
		}
	}
	text := fmt.Sprintf("Tool %q is in group %s, which is not active in this session.", t.def.Name, strings.Join(names, " and "))
	if len(names) > 1 {
		text = fmt.Sprintf("Tool %q is in groups %s, none of which is active in this session.", t.def.Name, strings.Join(names, ", "))
	}
	if own == "" || s.meta == nil {
		return text + " Only the application can activate it. Go on without the tool."
	}
	return text + fmt.Sprintf(" To activate it, call %s with {%q: true}, and true for every group that is to stay on; then call the tool again.", resetTools, own)
}

// runReset switches a session's groups as a call of reset_tools asks. Run again, it changes nothing
// and answers the same; raced by another change, it decides on what that one left.
func (d *Dispatcher) runReset(ctx context.Context, t *turn, c events.Call) (text string, reason events.Reason, err error) {
	for {
		reg := d.registry.snapshot()
		rec, err := d.session(ctx, t, reg)
		if err != nil {
			return "", "", err
		}
		if text, done := rec.result(t.id, c.ID); done {
			return text, events.ReasonOK, nil
		}
		input, _, err := toolkit.Unwrap(c.Input)
		var active []string
		if err == nil {
			active, text, err = reg.reset(rec.Active, input)
		}
		if err != nil {
			return inputText(err), events.ReasonInvalidInput, nil
		}
		if err := d.at("reset.session"); err != nil {
			return "", "", err
		}
		rec, err = d.sessions.put(ctx, t.session, rec, func(next *record) {
			next.Active, next.Applied = active, append(next.Applied, applied{t.id, c.ID, text})
		})
		if errors.Is(err, jet.ErrConflict) {
			continue
		}
		if err != nil {
			return "", "", err
		}
		return text, events.ReasonOK, d.toolsChanged(t.session, rec.revision)
	}
}

// toolsChanged tells whoever listens that a session may call other tools now.
func (d *Dispatcher) toolsChanged(session events.SessionID, revision uint64) error {
	return d.bus.Send(d.bus.Changed("session"), events.Event{Attributes: events.Attributes{
		ID: fmt.Sprintf("changed/session/%s/%d", events.Token(session), revision), Source: d.source(),
		Type: events.TypeToolsChanged, Session: session, Time: time.Now(),
	}})
}
