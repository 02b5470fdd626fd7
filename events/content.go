package events

import "encoding/json"

// Content is one MCP content block, kept byte for byte, unknown types included.
type Content json.RawMessage

// MarshalJSON returns the block as it is.
func (c Content) MarshalJSON() ([]byte, error) { return json.RawMessage(c).MarshalJSON() }

// UnmarshalJSON keeps the block as it is.
func (c *Content) UnmarshalJSON(b []byte) error {
	*c = append((*c)[:0], b...)
	return nil
}

// Text makes an MCP text block.
func Text(s string) Content {
	b, _ := marshal(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text", s})
	return b
}
