package toolkit

import (
	"encoding/json"
	"strconv"
)

func renderMCP(t exportTool) object {
	o := object{{"name", quote(t.name)}}
	if t.Title != "" {
		o = o.set("title", quote(t.Title))
	}
	o = append(t.described(o), member{"inputSchema", t.schema})
	if len(t.OutputSchema) > 0 {
		o = o.set("outputSchema", t.OutputSchema)
	}
	return o.set("annotations", object{
		{"destructiveHint", boolean(t.Fenced())}, {"idempotentHint", boolean(t.Idempotent)}, {"readOnlyHint", boolean(t.ReadOnly)},
	}.bytes())
}

func renderOpenAI(t exportTool) object {
	f := append(t.described(object{{"name", quote(t.name)}}), member{"parameters", t.schema})
	if t.Strict != nil {
		f = f.set("strict", boolean(*t.Strict))
	}
	return object{{"type", quote("function")}, {"function", f.bytes()}}
}

func renderResponses(t exportTool) object {
	o := t.described(object{{"type", quote("function")}, {"name", quote(t.name)}})
	return append(o, member{"parameters", t.schema}, member{"strict", boolean(t.Strict != nil && *t.Strict)})
}

func renderAnthropic(t exportTool) object {
	o := append(t.described(object{{"name", quote(t.name)}}), member{"input_schema", t.schema})
	if t.Strict != nil {
		o = o.set("strict", boolean(*t.Strict))
	}
	return o
}

func (t exportTool) described(o object) object {
	if t.Description == "" {
		return o
	}
	return append(o, member{"description", quote(t.Description)})
}

func boolean(b bool) json.RawMessage { return json.RawMessage(strconv.FormatBool(b)) }
