package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// Config returns the declared configuration of the installation, a [toolkit.Config], and its revision;
// revision 0: none was declared. For operators. Errors: [ErrDenied], [ErrUnavailable].
func (c *Client) Config(ctx context.Context) (events.ConfigReply, error) {
	var r events.ConfigReply
	err := c.ask(ctx, events.OpConfig, struct{}{}, &r)
	return r, err
}

// SetConfig declares a configuration in the place of the one at a revision, and returns its own. All
// of it comes into force, or nothing. For operators.
// Errors: [ErrInvalid], [ErrConflict] (the revision is another by now), [ErrDenied], [ErrUnavailable].
func (c *Client) SetConfig(ctx context.Context, revision uint64, config toolkit.Config) (now uint64, err error) {
	if err := config.Check(); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	raw, err := events.Marshal(config)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	const envelope = 4 << 10 // of the request around it
	if most := c.bus.Conn().MaxPayload() - envelope; int64(len(raw)) > most {
		return 0, fmt.Errorf("%w: the configuration has %d bytes, more than a message may have", ErrInvalid, len(raw))
	}
	var r events.ConfigReply
	if err := c.ask(ctx, events.OpConfigSet, events.ConfigSet{Revision: revision, Config: raw}, &r); err != nil {
		return 0, err
	}
	return r.Revision, nil
}

// ChangeConfig changes the declared configuration, such as one group of it: change is called with
// what is in force, again if somebody else changed it meanwhile, and its error ends the attempt.
// Errors: those of change and of [Client.SetConfig], but for [ErrConflict].
func (c *Client) ChangeConfig(ctx context.Context, change func(*toolkit.Config) error) error {
	for {
		now, err := c.Config(ctx)
		if err != nil {
			return err
		}
		var config toolkit.Config
		if now.Revision > 0 {
			if err := events.Unmarshal(now.Config, &config); err != nil {
				return fmt.Errorf("configuration %d: %w", now.Revision, err)
			}
		}
		if err := change(&config); err != nil {
			return err
		}
		if _, err := c.SetConfig(ctx, now.Revision, config); !errors.Is(err, ErrConflict) {
			return err
		}
	}
}
