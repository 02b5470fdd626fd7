package toolkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/toolwire/toolwire/events"
)

// Exported is a list of tools as the API of a model wants it. The same definitions make the same bytes.
//
// What an API refuses is changed on a copy: the definitions, and what arguments are validated by,
// stay as they are. Key order and the digits of numbers are kept. A tool that cannot be said in an
// API is left out, alone, for one that it refuses would cost the whole request.
type Exported struct {
	Tools   []json.RawMessage // in the order of the definitions
	Remarks []Remark          // what could not be kept, in the same order

	open, shut string // around the list
	names      map[string]events.ToolName
}

// Remark says what an export could not keep of a tool.
type Remark struct {
	Tool    events.ToolName
	Text    string
	LeftOut bool // the tool is not in the list
}

// JSON is the whole list: the result of MCP's tools/list, and the value of "tools" for the others.
func (e Exported) JSON() json.RawMessage {
	return joined(e.open, e.Tools, e.shut)
}

// Resolve returns the tool that a model means by a name: the export may have given it another. A name
// that is not of the list is returned as it is; a call of it has the result that there is no such tool.
func (e Exported) Resolve(name string) events.ToolName {
	if tool, ok := e.names[name]; ok {
		return tool
	}
	return events.ToolName(name)
}

// ExportMCP makes the result of tools/list. Names and schemas are passed on; a schema that does not
// say that it is of an object is made to.
func ExportMCP(defs []Definition) Exported {
	return export(defs, profile{open: `{"tools":[`, shut: `]}`, render: renderMCP})
}

// ExportOpenAI makes the tools of a request of Chat Completions, as OpenAI and the many others that
// speak it take them.
func ExportOpenAI(defs []Definition) Exported {
	p := openAI()
	p.lists, p.render = true, renderOpenAI
	return export(defs, p)
}

// ExportResponses makes the tools of a request of OpenAI's Responses. Strict is said of every tool,
// for that API takes silence for true and then wants every argument.
func ExportResponses(defs []Definition) Exported {
	p := openAI()
	p.render = renderResponses
	return export(defs, p)
}

// ExportAnthropic makes the tools of a request of Anthropic's Messages.
func ExportAnthropic(defs []Definition) Exported {
	return export(defs, profile{
		open: "[", shut: "]", render: renderAnthropic, model: true,
		refused: []string{"oneOf", "anyOf", "allOf"}, keys: anthropicKey,
		strict: &strictRules{optional: true, maxTools: 20, maxOptional: 24, maxUnions: 16},
	})
}

// profile is what an API wants of tools. All but MCP hand the schema to a model.
type profile struct {
	open, shut  string
	render      func(exportTool) object
	model       bool           // names and schemas have to suit a model's API
	refused     []string       // keywords that a schema's root must not have
	keys        *regexp.Regexp // the names that arguments may have; nil: any
	complete    bool           // objects must list properties, and arrays items, at any depth
	lists       bool           // the root must list what is required, be it nothing
	description int            // characters of a description; 0: no limit
	strict      *strictRules
}

// anthropicKey is what Anthropic's API takes for the name of an argument.
var anthropicKey = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

func openAI() profile {
	return profile{
		open: "[", shut: "]", model: true, complete: true, description: 1 << 20,
		refused: []string{"oneOf", "anyOf", "allOf", "enum", "not"},
		strict:  &strictRules{maxDepth: 10, maxProperties: 5000, maxEnum: 1000},
	}
}

// exportTool is a tool on its way into a list.
type exportTool struct {
	Definition
	name   string
	schema json.RawMessage
}

func export(defs []Definition, p profile) Exported {
	e := Exported{Tools: []json.RawMessage{}, open: p.open, shut: p.shut, names: map[string]events.ToolName{}}
	x := &exporter{profile: p}
	alias := aliases(defs, p.model)
	for i, d := range defs {
		x.remarks = nil
		t := exportTool{Definition: d, name: alias[i]}
		err := fmt.Errorf("another tool has its name")
		if _, twice := e.names[t.name]; !twice {
			err = x.prepare(&t)
		}
		for _, text := range x.remarks {
			e.Remarks = append(e.Remarks, Remark{Tool: d.Name, Text: text})
		}
		if err != nil {
			e.Remarks = append(e.Remarks, Remark{Tool: d.Name, Text: "left out: " + err.Error(), LeftOut: true})
			continue
		}
		e.names[t.name] = d.Name
		e.Tools = append(e.Tools, p.render(t).bytes())
	}
	return e
}

// exporter makes one list.
type exporter struct {
	profile
	used    strictUse // of what the API allows all strict tools together
	remarks []string  // on the tool at hand
}

func (x *exporter) remark(format string, args ...any) {
	x.remarks = append(x.remarks, fmt.Sprintf(format, args...))
}

// prepare makes the tool's schema and description ready.
func (x *exporter) prepare(t *exportTool) error {
	if err := events.CheckJSON(t.InputSchema); err != nil {
		return err
	}
	root, err := readObject(t.InputSchema)
	if err != nil {
		return err
	}
	if x.model {
		if root, err = x.suit(t, root); err != nil {
			return err
		}
	} else {
		root = ofObject(root)
	}
	if t.schema, err = compact(root.bytes()); err != nil {
		return err
	}
	if !x.model || t.Strict == nil || !*t.Strict || !x.makeStrict(t) {
		if _, err := compile(t.schema); err != nil {
			return fmt.Errorf("its schema cannot be said in this API: %w", err)
		}
	}
	if len(t.OutputSchema) > 0 && !x.model {
		x.suitOutput(t)
	}
	t.Description = strings.ToValidUTF8(t.Description, "\uFFFD")
	if x.description > 0 && utf8.RuneCountInString(t.Description) > x.description {
		t.Description = string([]rune(t.Description)[:x.description-2]) + " …"
		x.remark("its description is cut to %d characters", x.description)
	}
	return nil
}

// suitOutput leaves out an output schema that clients refuse, and the whole list with it.
func (x *exporter) suitOutput(t *exportTool) {
	root, err := readObject(t.OutputSchema)
	if err == nil && string(root.get("type")) == `"object"` {
		if t.OutputSchema, err = compact(t.OutputSchema); err == nil {
			return
		}
	}
	t.OutputSchema = nil
	x.remark("its output schema is not shown: it does not say that it is of an object")
}

func compact(raw json.RawMessage) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func joined(open string, list []json.RawMessage, shut string) json.RawMessage {
	b := []byte(open)
	for i, raw := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, raw...)
	}
	return append(b, shut...)
}
