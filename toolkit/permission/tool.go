package permission

import (
	"encoding/json"

	"github.com/toolwire/toolwire/events"
)

// Tool is what rules see of a tool: fields of its registered definition.
type Tool struct {
	Name                 events.ToolName
	InputSchema          json.RawMessage
	ReadOnly             bool     // changes nothing, whatever the arguments
	Matcher              string   // what the content of a rule means; see the package comment
	DangerousFiles       []string // see [Evaluate]
	DangerousDirectories []string
	MCPServer            string // it comes from; "": none
}
