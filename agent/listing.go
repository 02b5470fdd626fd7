package agent

import (
	"context"
	"fmt"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// Listing is all tools that a session may call, sorted by name, at one revision of its record and of
// the configuration: what may run at these revisions is what is listed. A model is given one of its exports,
// and calls by the names in there, which the export resolves:
//
//	tools := listing.OpenAI()
//	call := events.Call{Name: tools.Resolve(said.Name), Input: said.Arguments}
type Listing struct {
	Session         events.SessionID // "": of no session, all there are
	SessionRevision uint64           // of the session's record; 0: of no session, or it has none yet
	ConfigRevision  uint64
	Tools           []Tool
}

// maxListings is how often a listing begins again because the session or the configuration changed
// between two pages of it.
const maxListings = 5

// List returns the tools that a session may call, as one [Listing]. An empty session lists all tools.
// Errors: [ErrInvalid], [ErrConflict] (they change faster than they can be read), [ErrDenied], [ErrUnavailable].
func (c *Client) List(ctx context.Context, session events.SessionID) (Listing, error) {
	if session != "" {
		if err := events.CheckID("session", session); err != nil {
			return Listing{}, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	for range maxListings {
		if l, same, err := c.list(ctx, session); err != nil || same {
			return l, err
		}
	}
	return Listing{}, fmt.Errorf("%w: the tools of session %q changed while they were listed", ErrConflict, session)
}

// list reads all pages once; same says whether they were of the same revisions.
func (c *Client) list(ctx context.Context, session events.SessionID) (l Listing, same bool, err error) {
	l = Listing{Session: session, Tools: []Tool{}}
	for page, err := range c.pages(ctx, session) {
		if err != nil {
			return Listing{}, false, err
		}
		if len(l.Tools) == 0 {
			l.SessionRevision, l.ConfigRevision = page.SessionRevision, page.ConfigRevision
		}
		if page.SessionRevision != l.SessionRevision || page.ConfigRevision != l.ConfigRevision {
			return Listing{}, false, nil
		}
		for _, info := range page.Tools {
			t, err := newTool(info)
			if err != nil {
				return Listing{}, false, err
			}
			l.Tools = append(l.Tools, t)
		}
	}
	return l, true, nil
}

// MCP is the listing as the result of MCP's tools/list.
func (l Listing) MCP() toolkit.Exported { return toolkit.ExportMCP(l.Definitions()) }

// OpenAI is the listing as the tools of OpenAI's Chat Completions.
func (l Listing) OpenAI() toolkit.Exported { return toolkit.ExportOpenAI(l.Definitions()) }

// Responses is the listing as the tools of OpenAI's Responses.
func (l Listing) Responses() toolkit.Exported { return toolkit.ExportResponses(l.Definitions()) }

// Anthropic is the listing as the tools of Anthropic's Messages.
func (l Listing) Anthropic() toolkit.Exported { return toolkit.ExportAnthropic(l.Definitions()) }

// Definitions are those of the tools, for any export.
func (l Listing) Definitions() []toolkit.Definition {
	defs := make([]toolkit.Definition, len(l.Tools))
	for i, t := range l.Tools {
		defs[i] = t.Definition
	}
	return defs
}
