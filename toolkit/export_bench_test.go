package toolkit_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// A listing of a hundred tools of ten arguments each, as before each request to a model.
func BenchmarkExport(b *testing.B) {
	strict := true
	var defs []toolkit.Definition
	for i := range 100 {
		schema := `{"type":"object","properties":{`
		for p := range 10 {
			schema += fmt.Sprintf(`"p%d":{"type":"string","description":"The argument number %d of this tool."},`, p, p) //nolint:perfsprint // once
		}
		schema += `"o":{"type":"object","properties":{"n":{"type":"integer"}}}},"required":["p0"]}`
		d := toolkit.Definition{Name: events.ToolName(fmt.Sprintf("tool_%d", i)), Description: "Does it.", InputSchema: json.RawMessage(schema)}
		if i%2 == 0 {
			d.Strict = &strict
		}
		defs = append(defs, d)
	}
	b.ReportAllocs()
	for b.Loop() {
		if e := toolkit.ExportOpenAI(defs); len(e.Remarks) > 0 {
			b.Fatal(e.Remarks)
		}
	}
}
