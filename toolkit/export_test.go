package toolkit_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

var update = flag.Bool("update", false, "write testdata/export")

// exports are the APIs by the names of their golden files.
func exports() map[string]func([]toolkit.Definition) toolkit.Exported {
	return map[string]func([]toolkit.Definition) toolkit.Exported{
		"mcp": toolkit.ExportMCP, "openai": toolkit.ExportOpenAI, "responses": toolkit.ExportResponses, "anthropic": toolkit.ExportAnthropic,
	}
}

func exportDefinitions(tb testing.TB) (defs []toolkit.Definition) {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "export", "definitions.json"))
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(raw, &defs); err != nil {
		tb.Fatal(err)
	}
	for _, d := range defs {
		if err := d.Check(); err != nil {
			tb.Fatal(err)
		}
	}
	return defs
}

// What the APIs get of the same definitions, a tool a line, and what the export says of them.
func TestExportGolden(t *testing.T) {
	t.Parallel()
	defs := exportDefinitions(t)
	for name, export := range exports() {
		got := export(defs)
		var b strings.Builder
		for _, tool := range got.Tools {
			fmt.Fprintf(&b, "%s\n", tool)
		}
		for _, r := range got.Remarks {
			fmt.Fprintf(&b, "# %s: %s\n", r.Tool, r.Text)
		}
		file := filepath.Join("testdata", "export", name+".txt")
		if *update {
			if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("%v (run the tests with -update)", err)
		}
		if diff := cmp.Diff(string(want), b.String()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if again := export(defs); !cmp.Equal(again.Tools, got.Tools) || !cmp.Equal(again.Remarks, got.Remarks) {
			t.Errorf("%s: a second export differs", name)
		}
		if diff := cmp.Diff(exportDefinitions(t), defs); diff != "" {
			t.Errorf("%s changed the definitions: %s", name, diff)
		}
	}
}

// exported is a tool as any of the APIs gets it.
type exported struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Strict      *bool           `json:"strict"`
	Parameters  json.RawMessage `json:"parameters"`
	Anthropic   json.RawMessage `json:"input_schema"` //nolint:tagliatelle // that API's spelling
	MCP         json.RawMessage `json:"inputSchema"`
	Function    *exported       `json:"function"`
}

func (e exported) schema() json.RawMessage {
	return slices.Concat(e.Parameters, e.Anthropic, e.MCP) // one of them is there
}

func readExported(tb testing.TB, raw json.RawMessage) exported {
	tb.Helper()
	var e exported
	if err := json.Unmarshal(raw, &e); err != nil {
		tb.Fatalf("%s: %v", raw, err)
	}
	if e.Function != nil {
		return *e.Function
	}
	return e
}

var exportedName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$`)

// checkExport holds an export to what holds of each: names are unique, within the limits and lead
// back; schemas are schemas of objects, without what the API refuses at a root; no tool goes unsaid.
func checkExport(t *testing.T, api string, defs []toolkit.Definition, got toolkit.Exported) {
	t.Helper()
	if err := events.CheckJSON(got.JSON()); err != nil {
		t.Errorf("%s: %v", api, err)
	}
	out := 0
	for _, r := range got.Remarks {
		if r.LeftOut {
			out++
		}
	}
	if len(got.Tools)+out != len(defs) {
		t.Errorf("%s: %d tools and %d left out, of %d", api, len(got.Tools), out, len(defs))
	}
	seen, back := map[string]bool{}, map[events.ToolName]bool{}
	for _, raw := range got.Tools {
		e := readExported(t, raw)
		tool := got.Resolve(e.Name)
		if seen[e.Name] || back[tool] || !slices.ContainsFunc(defs, func(d toolkit.Definition) bool { return d.Name == tool }) {
			t.Errorf("%s: name %q of %q is not its own", api, e.Name, tool)
		}
		seen[e.Name], back[tool] = true, true
		if api != "mcp" && !exportedName.MatchString(e.Name) {
			t.Errorf("%s: name %q is beyond the limits", api, e.Name)
		}
		if err := (toolkit.Definition{Name: "x", InputSchema: e.schema()}).Check(); err != nil {
			t.Errorf("%s: tool %q: %v", api, e.Name, err)
		}
		checkRoot(t, api, e)
	}
}

func checkRoot(t *testing.T, api string, e exported) {
	t.Helper()
	var root map[string]json.RawMessage
	if err := json.Unmarshal(e.schema(), &root); err != nil || string(root["type"]) != `"object"` {
		t.Errorf("%s: the schema of %q is not of an object: %s, %v", api, e.Name, e.schema(), err)
	}
	if api == "mcp" {
		return
	}
	refused := []string{"$schema", "$id", "$ref", "oneOf", "anyOf", "allOf"}
	if api != "anthropic" {
		refused = append(refused, "enum", "not")
	}
	for _, name := range refused {
		if root[name] != nil {
			t.Errorf("%s: the schema of %q has %s at its root", api, e.Name, name)
		}
	}
	if root["properties"] == nil {
		t.Errorf("%s: the schema of %q lists no properties", api, e.Name)
	}
}

func TestExportHolds(t *testing.T) {
	t.Parallel()
	defs := exportDefinitions(t)
	for api, export := range exports() {
		checkExport(t, api, defs, export(defs))
		if got := string(export(nil).JSON()); got != "[]" && got != `{"tools":[]}` {
			t.Errorf("%s: no tools make %s", api, got)
		}
	}
}

// Names that an API refuses get others, which depend on nothing else, and lead back.
func TestExportNames(t *testing.T) {
	t.Parallel()
	define := func(names ...string) (defs []toolkit.Definition) {
		for _, n := range names {
			defs = append(defs, toolkit.Definition{Name: events.ToolName(n), InputSchema: json.RawMessage(`{"type":"object"}`)})
		}
		return defs
	}
	long := strings.Repeat("x", 80)
	defs := define("ok", "1a", "_1a", "-", long+"1", long+"2", "a.b", "é", "")
	got := toolkit.ExportOpenAI(defs)
	checkExport(t, "openai", defs, got)
	alias := readExported(t, toolkit.ExportOpenAI(define("1a")).Tools[0]).Name
	if other := readExported(t, got.Tools[1]).Name; other != alias || got.Resolve(alias) != "1a" {
		t.Errorf("alone the tool is called %q, among others %q, which is %q", alias, other, got.Resolve(alias))
	}
	defs = define("1a", alias)
	got = toolkit.ExportOpenAI(defs)
	checkExport(t, "openai", defs, got)
	if got.Resolve(alias) != events.ToolName(alias) {
		t.Errorf("the name of a tool leads to %q", got.Resolve(alias))
	}
	if got.Resolve("none") != "none" {
		t.Errorf("a name of no tool became %q", got.Resolve("none"))
	}
	twice := toolkit.ExportMCP(define("ok", "ok"))
	if len(twice.Tools) != 1 || len(twice.Remarks) != 1 || !twice.Remarks[0].LeftOut {
		t.Errorf("a name given twice: %s, %v", twice.JSON(), twice.Remarks)
	}
}

// One tool that cannot be exported does not cost the others.
func TestExportLeavesOut(t *testing.T) {
	t.Parallel()
	var deep strings.Builder
	for i := range 12 {
		fmt.Fprintf(&deep, `"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%[2]d"}]},`, i, i+1)
	}
	for name, schema := range map[string]string{
		"no JSON":      `{`,
		"no object":    `[]`,
		"nothing fits": `{"allOf":[false]}`,
		"no way fits":  `{"oneOf":[{"type":"string"},false]}`,
		"many ways":    `{"$ref":"#/$defs/d0","$defs":{` + deep.String() + `"d12":{}}}`,
		"lost anchor":  `{"$ref":"#here","$defs":{"a":{"$anchor":"here"}}}`,
	} {
		good := toolkit.Definition{Name: "good", InputSchema: json.RawMessage(`{"type":"object"}`)}
		got := toolkit.ExportOpenAI([]toolkit.Definition{{Name: "bad", InputSchema: json.RawMessage(schema)}, good})
		if len(got.Tools) != 1 || len(got.Remarks) != 1 || !got.Remarks[0].LeftOut || got.Remarks[0].Tool != "bad" {
			t.Errorf("%s: %s, %v", name, got.JSON(), got.Remarks)
		}
	}
}

// The limits of strict tools: what goes beyond is exported all the same, and not strict.
func TestExportStrictLimits(t *testing.T) {
	t.Parallel()
	strict := true
	define := func(n int, schema string) (defs []toolkit.Definition) {
		for i := range n {
			name := events.ToolName(fmt.Sprintf("t%d", i))
			defs = append(defs, toolkit.Definition{Name: name, InputSchema: json.RawMessage(schema), Strict: &strict})
		}
		return defs
	}
	count := func(e toolkit.Exported) (n int) {
		for _, raw := range e.Tools {
			if s := readExported(t, raw).Strict; s != nil && *s {
				n++
			}
		}
		return n
	}
	nested := strings.Repeat(`{"type":"object","properties":{"a":`, 12) + `{"type":"string"}` + strings.Repeat(`}}`, 12)
	enum := `{"type":"object","properties":{"a":{"enum":[0,1]}}}`
	many := `{"type":"object","properties":{"a":{"type":"string","enum":["0"` + strings.Repeat(`,"x"`, 1000) + `]}}}`
	for name, c := range map[string]struct {
		got  toolkit.Exported
		want int
	}{
		"Anthropic: 20 tools":     {toolkit.ExportAnthropic(define(25, `{"type":"object"}`)), 20},
		"Anthropic: 24 optional":  {toolkit.ExportAnthropic(define(20, `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`)), 12},
		"Anthropic: 16 unions":    {toolkit.ExportAnthropic(define(20, `{"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"]}`)), 16},
		"OpenAI: no such limits":  {toolkit.ExportOpenAI(define(25, `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`)), 25},
		"OpenAI: depth":           {toolkit.ExportOpenAI(define(1, nested)), 0},
		"OpenAI: enum values":     {toolkit.ExportOpenAI(define(1, many)), 0},
		"OpenAI: few enum values": {toolkit.ExportOpenAI(define(1, enum)), 1},
		"OpenAI: anything":        {toolkit.ExportOpenAI(define(1, `{"type":"object","properties":{"a":{}}}`)), 0},
		"OpenAI: true":            {toolkit.ExportOpenAI(define(1, `{"type":"object","properties":{"a":true}}`)), 0},
		"OpenAI: undescribed":     {toolkit.ExportOpenAI(define(1, `{"type":"object","properties":{"a":{"type":"string"}},"required":["b"]}`)), 0},
		"OpenAI: patterns":        {toolkit.ExportOpenAI(define(1, `{"type":"object","properties":{"a":{"type":"object","patternProperties":{"x":{}}}}}`)), 0},
	} {
		if n := count(c.got); n != c.want {
			t.Errorf("%s: %d strict tools, want %d: %v", name, n, c.want, c.got.Remarks)
		}
		checkExport(t, strings.ToLower(strings.SplitN(name, ":", 2)[0]), define(len(c.got.Tools), `{}`), c.got)
	}
}

// A description beyond OpenAI's limit is cut between characters.
func TestExportDescriptionLimit(t *testing.T) {
	t.Parallel()
	d := toolkit.Definition{Name: "a", Description: strings.Repeat("é", 1<<20+1), InputSchema: json.RawMessage(`{"type":"object"}`)}
	got := toolkit.ExportResponses([]toolkit.Definition{d})
	text := readExported(t, got.Tools[0]).Description
	if n := len([]rune(text)); n != 1<<20 || !strings.HasSuffix(text, "é …") || len(got.Remarks) != 1 {
		t.Errorf("got %d characters, %v", n, got.Remarks)
	}
}
