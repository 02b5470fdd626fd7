package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// Tool is a registered tool: how it is called, and what is known of it now. The shapes in which
// model APIs want it are MCP, OpenAI (Responses), OpenAIChat and Anthropic.
type Tool struct {
	toolkit.Definition
	Info events.ToolInfo
}

// OpenAIChat is the tool as the Chat Completions API wants it.
func (t Tool) OpenAIChat() any {
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict,omitempty"`
	}
	return struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}{"function", function{string(t.Name), t.Description, t.InputSchema, t.Strict}}
}

// Tools lists the tools that a session may call, sorted by name, a page at a time.
// Errors: [ErrInvalid], [ErrDenied], [ErrUnavailable].
func (c *Client) Tools(ctx context.Context, session events.SessionID) iter.Seq2[Tool, error] {
	return func(yield func(Tool, error) bool) {
		req := events.ToolsRequest{Session: session}
		for {
			var page events.ToolsReply
			if err := c.ask(ctx, events.OpTools, req, &page); err != nil {
				yield(Tool{}, err)
				return
			}
			for _, info := range page.Tools {
				t, err := newTool(info)
				if !yield(t, err) || err != nil {
					return
				}
				req.After = t.Name
			}
			if !page.More || len(page.Tools) == 0 {
				return
			}
		}
	}
}

// Tool returns one tool. Errors: [ErrInvalid], [ErrNotFound], [ErrDenied], [ErrUnavailable].
func (c *Client) Tool(ctx context.Context, name events.ToolName) (Tool, error) {
	if err := events.CheckID("tool", name); err != nil {
		return Tool{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	var info events.ToolInfo
	if err := c.ask(ctx, events.OpTool, events.ToolRequest{Name: name}, &info); err != nil {
		return Tool{}, err
	}
	return newTool(info)
}

// DropTool removes a tool that no worker runs any more. Calls that wait for it go on waiting, until
// their time in the queue is over.
// Errors: [ErrInvalid], [ErrNotFound], [ErrConflict] (workers run it), [ErrDenied], [ErrUnavailable].
func (c *Client) DropTool(ctx context.Context, name events.ToolName) error {
	if err := events.CheckID("tool", name); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return c.ask(ctx, events.OpToolDrop, events.ToolRequest{Name: name}, new(struct{}))
}

func newTool(info events.ToolInfo) (Tool, error) {
	t := Tool{Info: info}
	if err := json.Unmarshal(info.Definition, &t.Definition); err != nil {
		return t, fmt.Errorf("definition of a tool: %w", err)
	}
	return t, nil
}
