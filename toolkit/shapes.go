package toolkit

import "encoding/json"

// The shapes in which the APIs of models want their tools. The schema is passed on as it is.

// MCP is the tool as an MCP server lists it.
func (d Definition) MCP() any {
	return struct {
		Name         string          `json:"name"`
		Title        string          `json:"title,omitempty"`
		Description  string          `json:"description,omitempty"`
		InputSchema  json.RawMessage `json:"inputSchema"`
		OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
		Annotations  map[string]bool `json:"annotations"`
	}{
		string(d.Name), d.Title, d.Description, d.InputSchema, d.OutputSchema,
		map[string]bool{"readOnlyHint": d.ReadOnly, "idempotentHint": d.Idempotent, "destructiveHint": d.Fenced()},
	}
}

// OpenAI is the tool as the Responses API wants it.
func (d Definition) OpenAI() any {
	return struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	}{"function", string(d.Name), d.Description, d.InputSchema, d.Strict}
}

// Anthropic is the tool as the Messages API wants it.
func (d Definition) Anthropic() any {
	return struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		InputSchema json.RawMessage `json:"input_schema"` //nolint:tagliatelle // that API's spelling
		Strict      *bool           `json:"strict,omitempty"`
	}{string(d.Name), d.Description, d.InputSchema, d.Strict}
}
