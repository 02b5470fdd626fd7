package dispatcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

func groupsOf(config toolkit.Config, defs ...toolkit.Definition) *snapshot {
	tools := make(map[events.ToolName]*tool)
	for _, d := range defs {
		if len(d.InputSchema) == 0 {
			d.InputSchema = json.RawMessage(`{"type":"object"}`)
		}
		tools[d.Name] = toolOf(d, "pool")
	}
	return newSnapshot(tools, settings{config, 7})
}

// shop has a group of each kind.
func shop() *snapshot {
	return groupsOf(toolkit.Config{Groups: []toolkit.Group{
		{Name: "database", Description: "Queries.", Instructions: "Ask for few rows.", Tools: []string{"db_query", "mcp__db__*"}},
		{Name: "mail", Tools: []string{"send", "db_query"}},
		{Name: "admin", Scope: toolkit.ScopeExternal, Tools: []string{"wipe"}, Servers: []string{"root"}},
	}},
		toolkit.Definition{Name: "db_query"}, toolkit.Definition{Name: "send"}, toolkit.Definition{Name: "wipe"},
		toolkit.Definition{Name: "mcp__db__dump"}, toolkit.Definition{Name: "mcp__root__x", MCPServer: "root"},
		toolkit.Definition{Name: "plain"}, toolkit.Definition{Name: "own", Group: "own"},
		toolkit.Definition{Name: "always", Group: toolkit.GroupBasic},
	)
}

func names(reg *snapshot, rec *record) (out []string) {
	for t := range reg.listed(rec, "") {
		out = append(out, string(t.def.Name))
	}
	return out
}

// Tools in no group can always be called; one in several, if any of them is on (K5, G1).
func TestWhatASessionMayCall(t *testing.T) {
	t.Parallel()
	reg := shop()
	for active, want := range map[string]string{
		"":                     "always plain reset_tools",
		"database":             "always db_query mcp__db__dump plain reset_tools",
		"mail":                 "always db_query plain reset_tools send",
		"admin":                "always mcp__root__x plain reset_tools wipe",
		"own":                  "always own plain reset_tools",
		"database,mail,admin":  "always db_query mcp__db__dump mcp__root__x plain reset_tools send wipe",
		"gone":                 "always plain reset_tools",
		"basic":                "always plain reset_tools",
		"database,unheard,own": "always db_query mcp__db__dump own plain reset_tools",
	} {
		got := strings.Join(names(reg, newRecord("a", strings.Split(active, ","))), " ")
		if got != want {
			t.Errorf("with %q on: %s, want %s", active, got, want)
		}
	}
	if got := strings.Join(names(reg, nil), " "); got != "always db_query mcp__db__dump mcp__root__x own plain reset_tools send wipe" {
		t.Errorf("all tools: %s", got)
	}
}

// A listing page by page is the listing.
func TestListingByPages(t *testing.T) {
	t.Parallel()
	reg, rec := shop(), newRecord("a", []string{"database", "admin"})
	var got []string
	after := events.ToolName("")
	for {
		before := len(got)
		for tl := range reg.listed(rec, after) {
			got = append(got, string(tl.def.Name))
			after = tl.def.Name
			if len(got) == before+2 {
				break
			}
		}
		if len(got) == before {
			break
		}
	}
	if diff := cmp.Diff(names(reg, rec), got); diff != "" {
		t.Error(diff)
	}
}

// What is listed is what may run, for any session, configuration and tool.
func TestListingAndDecidingAgree(t *testing.T) {
	t.Parallel()
	pick := func(r *rand.Rand, all []string) (out []string) {
		for _, s := range all {
			if r.IntN(3) == 0 {
				out = append(out, s)
			}
		}
		return out
	}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var defs []toolkit.Definition
		var toolNames, groupNames []string
		for i := range 12 {
			d := toolkit.Definition{Name: events.ToolName(fmt.Sprintf("t%d_%d", i%3, i))}
			if r.IntN(4) == 0 {
				d.Group = fmt.Sprintf("g%d", r.IntN(8))
			}
			defs = append(defs, d)
			toolNames = append(toolNames, string(d.Name), string(d.Name[:3])+"*")
		}
		var c toolkit.Config
		for i := range 6 {
			g := toolkit.Group{Name: fmt.Sprintf("g%d", i), Tools: pick(r, toolNames)}
			if r.IntN(3) == 0 {
				g.Scope = toolkit.ScopeExternal
			}
			c.Groups = append(c.Groups, g)
			groupNames = append(groupNames, g.Name)
		}
		c.NoMetaTool = r.IntN(4) == 0
		reg, rec := groupsOf(c, defs...), newRecord("a", pick(r, append(groupNames, "g7")))
		listed := names(reg, rec)
		for _, d := range append(defs, toolkit.Definition{Name: resetTools}) {
			tn := &turn{began: time.Now()}
			got := decideCall(tn, events.Call{ID: "c", Name: d.Name}, basis{reg: reg, rec: rec, now: tn.began})
			if may := got.work != nil || got.control; may != slices.Contains(listed, string(d.Name)) {
				t.Fatalf("seed %d: %s: listed %v, decided %+v", seed, d.Name, !may, got)
			}
		}
	}
}

// A call into a group that is off is told which group, and how it is switched on (G10).
func TestInactiveCalls(t *testing.T) {
	t.Parallel()
	reg, rec := shop(), newRecord("a", nil)
	for name, want := range map[events.ToolName][]string{
		"mcp__db__dump": {`group "database"`, `reset_tools with {"database": true}`},
		"db_query":      {`groups "database", "mail"`, `reset_tools with {"database": true}`},
		"wipe":          {`group "admin"`, "Only the application can activate it"},
	} {
		got := decideCall(&turn{}, events.Call{ID: "c", Name: name, Input: json.RawMessage("7")}, basis{reg: reg, rec: rec, now: time.Now()})
		if got.reason != events.ReasonInactive {
			t.Errorf("%s: got %s, want inactive, though the arguments are wrong too", name, got.reason)
		}
		for _, part := range want {
			if !strings.Contains(got.text, part) {
				t.Errorf("%s: %q does not say %q", name, got.text, part)
			}
		}
	}
	off := groupsOf(toolkit.Config{NoMetaTool: true, Groups: []toolkit.Group{{Name: "g", Tools: []string{"x"}}}}, toolkit.Definition{Name: "x"})
	if got := decideCall(&turn{}, events.Call{Name: "x"}, basis{reg: off, rec: rec, now: time.Now()}); strings.Contains(got.text, "reset_tools") {
		t.Errorf("%q names a tool that is not there", got.text)
	}
	if got := decideCall(&turn{}, events.Call{Name: resetTools}, basis{reg: off, rec: rec, now: time.Now()}); got.reason != events.ReasonNotFound {
		t.Errorf("reset_tools, switched off: got %s", got.reason)
	}
}

// What is not shown to a session is not suggested to it.
func TestNothingHiddenIsSuggested(t *testing.T) {
	t.Parallel()
	reg := shop()
	for active, want := range map[string]bool{"": false, "mail": true} {
		got := decideCall(&turn{}, events.Call{Name: "sendd"}, basis{reg: reg, rec: newRecord("a", []string{active}), now: time.Now()})
		if got.reason != events.ReasonNotFound || strings.Contains(got.text, "send.") != want {
			t.Errorf("with %q on: got %s %q", active, got.reason, got.text)
		}
	}
}

// The arguments of reset_tools: final state, all checked before anything changes (G2 to G6, G9).
func TestReset(t *testing.T) {
	t.Parallel()
	reg := shop()
	for name, c := range map[string]struct {
		now, input, active string
		says, not          string
		err                string
	}{
		"on":                       {"", `{"database":true}`, "database", "Ask for few rows.", "", ""},
		"final state":              {"mail", `{"database":true}`, "database", "", "", ""},
		"false and left out":       {"database,mail", `{"database":false}`, "", "All groups of tools are off", "", ""},
		"again":                    {"database", `{"database":true}`, "database", "Active groups of tools: database.", "few rows", ""},
		"no instructions":          {"", `{"mail":true}`, "mail", "mail, switched on now", "<tool-instructions>", ""},
		"external is kept":         {"admin,mail", `{}`, "admin", "", "", ""},
		"empty":                    {"mail", `{}`, "", "", "", ""},
		"alias":                    {"mail", `{"to_activate":["database","own"]}`, "database,own", "", "", ""},
		"alias, nothing":           {"mail", `{"to_activate":[]}`, "", "", "", ""},
		"alias, no list":           {"mail", `{"to_activate":"database"}`, "", "", "", "must be a list"},
		"alias, unknown":           {"mail", `{"to_activate":["nope"]}`, "", "", "", "no such group: nope; there are: database, mail, own"},
		"unknown":                  {"mail", `{"database":true,"nope":true}`, "", "", "", "no such group: nope; there are: database, mail, own"},
		"unknown, though false":    {"mail", `{"nope":false}`, "", "", "", "no such group: nope"},
		"basic":                    {"mail", `{"basic":true}`, "", "", "", "no such group: basic"},
		"external is not the tool": {"mail", `{"admin":true}`, "", "", "", "no such group: admin"},
		"no boolean":               {"mail", `{"database":"true"}`, "", "", "", "must be true or false: database"},
		"null":                     {"mail", `{"database":null}`, "", "", "", "must be true or false: database"},
		"a list":                   {"mail", `[]`, "", "", "", "must be an object"},
		"no JSON":                  {"mail", `{`, "", "", "", "not valid JSON"},
		"twice":                    {"mail", `{"mail":true,"mail":false}`, "", "", "", "not valid JSON"},
	} {
		now := strings.FieldsFunc(c.now, func(r rune) bool { return r == ',' })
		active, text, err := reg.reset(now, json.RawMessage(c.input))
		if c.err != "" {
			in, ok := errors.AsType[*toolkit.InputError](err)
			if !ok || !strings.Contains(in.Text, c.err) || !strings.Contains(in.Text, "No group was switched") {
				t.Errorf("%s: got %v, want %q", name, err, c.err)
			}
			continue
		}
		if err != nil || strings.Join(active, ",") != c.active || !strings.Contains(text, c.says) || c.not != "" && strings.Contains(text, c.not) {
			t.Errorf("%s: got %v %q, %v", name, active, text, err)
		}
	}
}

// The meta tool's schema takes what it describes: one boolean per group that agents may switch.
func TestResetDefinition(t *testing.T) {
	t.Parallel()
	reg := shop()
	def := reg.meta.def
	if err := def.Check(); err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]struct {
			Type, Description string
			Default           *bool
		}
	}
	if err := json.Unmarshal(def.InputSchema, &schema); err != nil {
		t.Fatal(err)
	}
	if len(schema.Properties) != 3 || schema.Properties["database"].Description != "Queries." || schema.Properties["own"].Type != "boolean" {
		t.Errorf("got %s", def.InputSchema)
	}
	if groupsOf(toolkit.Config{Groups: []toolkit.Group{{Name: "x", Scope: toolkit.ScopeExternal}}}).meta != nil {
		t.Error("offered without a group that an agent may switch")
	}
}

// Application code switches groups of either scope; an unknown name changes nothing.
func TestSwitched(t *testing.T) {
	t.Parallel()
	reg := shop()
	list := func(s ...string) *[]string { return &s }
	for name, c := range map[string]struct {
		now     []string
		final   *[]string
		on, off []string
		want    []string
		unknown []string
	}{
		"on":           {now: []string{"mail"}, on: []string{"admin"}, want: []string{"admin", "mail"}},
		"off":          {now: []string{"mail", "admin"}, off: []string{"mail"}, want: []string{"admin"}},
		"final":        {now: []string{"mail"}, final: list("database"), want: []string{"database"}},
		"none":         {now: []string{"mail"}, final: list()},
		"all three":    {now: []string{"mail"}, final: list("own"), on: []string{"admin"}, off: []string{"own"}, want: []string{"admin"}},
		"gone by now":  {now: []string{"mail", "gone"}, on: []string{"own"}, want: []string{"mail", "own"}},
		"unknown":      {now: []string{"mail"}, on: []string{"x"}, final: list("y", "mail"), off: []string{"z"}, want: []string{"mail"}, unknown: []string{"y", "x", "z"}},
		"on and off":   {on: []string{"mail"}, off: []string{"mail"}},
		"twice is one": {on: []string{"mail", "mail"}, want: []string{"mail"}},
	} {
		active, unknown := reg.switched(c.now, c.final, c.on, c.off)
		if !slices.Equal(unknown, c.unknown) || len(unknown) == 0 && !slices.Equal(active, c.want) {
			t.Errorf("%s: got %v, unknown %v; want %v, %v", name, active, unknown, c.want, c.unknown)
		}
	}
}

// A call costs the same with a thousand groups and ten thousand tools.
func TestCallsDoNotGrowWithTheCatalogue(t *testing.T) { //nolint:paralleltest // allocations are counted
	cost := func(tools, groups int) float64 {
		var c toolkit.Config
		for i := range groups {
			c.Groups = append(c.Groups, toolkit.Group{Name: fmt.Sprintf("g%d", i), Tools: []string{fmt.Sprintf("t%d", i), fmt.Sprintf("mcp__s%d__*", i)}})
		}
		defs := make([]toolkit.Definition, tools)
		for i := range defs {
			defs[i].Name = events.ToolName(fmt.Sprintf("t%d", i))
		}
		reg, rec := groupsOf(c, defs...), newRecord("a", []string{"g1"})
		tn := &turn{began: time.Now()}
		calls := []events.Call{{ID: "1", Name: "t1"}, {ID: "2", Name: "t2"}, {ID: "3", Name: "t9"}}
		decide(tn, calls, basis{reg: reg, rec: rec, now: tn.began}) // compiles the schemas
		return testing.AllocsPerRun(100, func() { decide(tn, calls, basis{reg: reg, rec: rec, now: tn.began}) })
	}
	if few, many := cost(10, 10), cost(10_000, 1000); many > few+3 { // one or two are chance: caches, and hashes of maps
		t.Errorf("%v allocations with 10 tools, %v with 10,000", few, many)
	}
}

func FuzzReset(f *testing.F) {
	for _, s := range []string{`{"database":true}`, `{"to_activate":["mail"]}`, `{"nope":1}`, `[]`, `{"admin":true}`} {
		f.Add([]byte(s))
	}
	reg := shop()
	f.Fuzz(func(t *testing.T, input []byte) {
		active, text, err := reg.reset([]string{"admin", "mail"}, input)
		if err != nil {
			if active != nil || text != "" {
				t.Fatalf("%v, and yet %v %q", err, active, text)
			}
			return
		}
		if !slices.Contains(active, "admin") {
			t.Fatal("a group of application code was switched off")
		}
		again, _, err := reg.reset(active, input)
		if err != nil || !slices.Equal(active, again) {
			t.Fatalf("run again: %v, %v, want %v", again, err, active)
		}
	})
}
