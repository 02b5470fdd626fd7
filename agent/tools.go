package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// Tool is a registered tool: how it is called, and what is known of it now.
type Tool struct {
	toolkit.Definition
	Info events.ToolInfo
}

// Tools lists the tools that a session may call, sorted by name, a page at a time. [Client.List] has
// them at one revision, and in the shapes that models want.
// Errors: [ErrInvalid], [ErrDenied], [ErrUnavailable].
func (c *Client) Tools(ctx context.Context, session events.SessionID) iter.Seq2[Tool, error] {
	return func(yield func(Tool, error) bool) {
		for page, err := range c.pages(ctx, session) {
			if err != nil {
				yield(Tool{}, err)
				return
			}
			for _, info := range page.Tools {
				t, err := newTool(info)
				if !yield(t, err) || err != nil {
					return
				}
			}
		}
	}
}

// pages reads the pages of a listing.
func (c *Client) pages(ctx context.Context, session events.SessionID) iter.Seq2[events.ToolsReply, error] {
	return func(yield func(events.ToolsReply, error) bool) {
		req := events.ToolsRequest{Session: session}
		for {
			var page events.ToolsReply
			if err := c.ask(ctx, events.OpTools, req, &page); err != nil {
				yield(page, err)
				return
			}
			if !yield(page, nil) || !page.More || len(page.Tools) == 0 {
				return
			}
			last, err := newTool(page.Tools[len(page.Tools)-1])
			if err != nil {
				yield(page, err)
				return
			}
			req.After = last.Name
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
