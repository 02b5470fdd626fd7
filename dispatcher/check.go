package dispatcher

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// checkPatience bounds one question to a tool's workers. No answer means that a person is asked.
const checkPatience = 2 * time.Second

// checks asks the workers of tools that have a permission check of their own about calls of them. A
// call without an entry could not be checked.
func (d *Dispatcher) checks(ctx context.Context, t *turn, calls []events.Call, reg *snapshot, rec *record) (map[events.CallID]*permission.Check, error) {
	var due []events.Call
	for _, c := range calls {
		if tl := reg.tool(c.Name); tl != nil && permission.NeedsCheck(tl.def.Permission()) && rec.callable(tl) && tl.schema != nil {
			due = append(due, c)
		}
	}
	if len(due) == 0 {
		return nil, nil //nolint:nilnil // none is to be asked about
	}
	answers := make([]*permission.Check, len(due))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, c := range due {
		g.Go(func() (err error) {
			answers[i], err = d.checkOne(gctx, t, c, reg, rec)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out := make(map[events.CallID]*permission.Check, len(due))
	for i, c := range due {
		if answers[i] != nil {
			out[c.ID] = answers[i]
		}
	}
	return out, nil
}

// checkOne asks about one call; nil: there was no usable answer.
func (d *Dispatcher) checkOne(ctx context.Context, t *turn, c events.Call, reg *snapshot, rec *record) (*permission.Check, error) {
	tl := reg.tool(c.Name)
	input := c.Input
	if g := t.granted[c.ID]; g != nil && g.input != nil {
		input = g.input
	}
	schema, err := tl.schema()
	if err != nil {
		return nil, nil //nolint:nilnil // the call is refused for that
	}
	if input, _, err = schema.Prepare(input); err != nil {
		return nil, nil //nolint:nilnil // likewise
	}
	policy := reg.policy(rec, tl)
	q := events.CheckRequest{
		Session: t.session, Agent: t.agent, Call: events.Call{ID: c.ID, Name: c.Name, Input: input}, Definition: tl.hash, Mode: string(policy.Mode),
	}
	for _, r := range policy.Rules {
		if r.Content != "" && r.Covers(c.Name) {
			q.Contents = append(q.Contents, r.Content)
		}
	}
	body, err := events.Marshal(q)
	if err != nil {
		return nil, err
	}
	rctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	m, err := d.bus.Conn().RequestWithContext(rctx, d.bus.Check(tl.pool, c.Name), body)
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, nats.ErrConnectionClosed) || !d.bus.Conn().IsConnected() {
			return nil, err
		}
		d.log.Warn().Err(err).Str("tool", string(c.Name)).Msg("permission check of the tool not answered")
		return nil, nil //nolint:nilnil // no answer
	}
	var check permission.Check
	if err := json.Unmarshal(m.Data, &check); err != nil {
		d.log.Warn().Err(err).Str("tool", string(c.Name)).Msg("permission check of the tool not understood")
		return nil, nil //nolint:nilnil // as good as no answer
	}
	return &check, nil
}
