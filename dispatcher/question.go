package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
)

// put asks: for each place a timer, then the question. The record that holds them is stored by now. It is
// to be looked at again after it, by takeBack or by writing it: a question may have been decided meanwhile,
// by whom another dispatcher put it for.
func (d *Dispatcher) put(ctx context.Context, t *turn, s *stagedTurn, places []int) error {
	if len(places) == 0 {
		return nil
	}
	var timers, questions []jet.Out
	var timed []*asked
	for _, i := range places {
		a, call := s.Calls[i].Ask, t.body.Calls[i]
		if timer, ok := d.askTimer(t, call, a); ok {
			timers, timed = append(timers, timer), append(timed, a)
		}
		q, err := d.questionEvent(ctx, t, call, a)
		if err != nil {
			return err
		}
		questions = append(questions, q)
	}
	seqs, err := d.storeAll(ctx, timers, "ask.timer")
	if err != nil {
		return err
	}
	for n, a := range timed {
		a.TimerSeq = seqs[n]
	}
	if seqs, err = d.storeAll(ctx, questions, "ask.question"); err != nil {
		return err
	}
	for n, i := range places {
		s.Calls[i].Ask.QuestionSeq = seqs[n]
	}
	return d.at("ask.look")
}

// renew gives questions their full time that were perhaps never put: whoever was to do so died, and it may
// have been long ago. It says whether there are any.
func (d *Dispatcher) renew(t *turn, s *stagedTurn, places []int, now time.Time) (renewed bool) {
	set := &d.registry.snapshot().settings
	for _, i := range places {
		if a := s.Calls[i].Ask; !a.Put && now.Sub(a.AskedAt) > time.Second {
			a.AskedAt, a.Renewed, renewed = now, true, true
			a.demand(set.ApprovalFor(t.body.Calls[i].Name))
		}
	}
	return renewed
}

// takeBack removes questions that are no longer open: they may have been decided before they were put.
func (d *Dispatcher) takeBack(ctx context.Context, t *turn, s *stagedTurn, places []int) error {
	now, _, _, err := d.stagedTurn(ctx, t.session, t.id)
	if err != nil && !errors.Is(err, jet.ErrNone) {
		return err
	}
	for _, i := range places {
		a := s.Calls[i].Ask
		if now != nil && now.asking(a.Request) >= 0 {
			a.Put = true
			continue
		}
		if err := d.close(ctx, t.key(t.body.Calls[i].ID), t.body.Calls[i].Name, a); err != nil {
			return err
		}
	}
	return nil
}

// close removes a question that is decided, and its timer, side by side. It may be closed already.
func (d *Dispatcher) close(ctx context.Context, k events.CallKey, name events.ToolName, a *asked) error {
	if err := d.at("ask.close"); err != nil {
		return err
	}
	timer := make(chan error, 1)
	go func() { timer <- d.bus.ClearAt(ctx, d.bus.Timer(askName(k, a.Request)...), a.TimerSeq) }()
	err := d.bus.ClearAt(ctx, d.bus.Require(a.Kind, name, k, a.Request), a.QuestionSeq)
	return errors.Join(err, <-timer)
}

// withdraw closes questions about calls that have their results all the same.
func (d *Dispatcher) withdraw(ctx context.Context, t *turn, s *stagedTurn, places []int) error {
	for _, i := range places {
		a, call := s.Calls[i].Ask, t.body.Calls[i]
		if err := d.close(ctx, t.key(call.ID), call.Name, a); err != nil {
			return err
		}
	}
	return nil
}

func askName(k events.CallKey, request string) []string {
	return []string{"ask", string(k.Session), string(k.Turn), string(k.Call), request}
}

// askTimer wakes a dispatcher when the time of a question is over.
func (d *Dispatcher) askTimer(t *turn, c events.Call, a *asked) (jet.Out, bool) {
	if a.ExpiresAt == nil {
		return jet.Out{}, false
	}
	k := t.key(c.ID)
	attrs := d.attributes(k, events.Attributes{}, "due/"+a.Request, typeDue, c.Name)
	name := askName(k, a.Request)
	return jet.Out{
		Subject: d.bus.Timer(name...), Event: events.Event{Attributes: attrs},
		Header: schedule("@at "+a.ExpiresAt.UTC().Format(time.RFC3339Nano), d.bus.Due(name...)),
	}, true
}

// questionEvent is a question as it is stored, made of what the record and the call say.
func (d *Dispatcher) questionEvent(ctx context.Context, t *turn, c events.Call, a *asked) (jet.Out, error) {
	q, _, err := d.question(ctx, t, c, a)
	if err != nil {
		return jet.Out{}, err
	}
	typ := events.TypeRequireUserConfirm
	if a.Kind == events.KindExternal {
		typ = events.TypeRequireExternalExecution
	}
	k := t.key(c.ID)
	attrs := d.attributes(k, t.attrs, "require/"+a.Request, typ, c.Name)
	attrs.Request, attrs.Time = a.Request, a.AskedAt
	e, err := events.New(attrs, q)
	return jet.Out{Subject: d.bus.Require(a.Kind, c.Name, k, a.Request), Event: e}, err
}

// question makes the question of a record. exact: it is the one that was put, or would be; if not, the
// tool is defined otherwise by now, or the record was given a new time.
func (d *Dispatcher) question(ctx context.Context, t *turn, c events.Call, a *asked) (q events.Question, exact bool, err error) {
	reg, err := d.registry.covering(ctx, []events.Call{c})
	if err != nil {
		return q, false, err
	}
	input, tool := subject(reg, c, a)
	c.Input = input
	var def toolkit.Definition
	if tool != nil {
		def = tool.def
	}
	return a.question(t, c, def), tool != nil && tool.hash == a.Definition && !a.Renewed, nil
}

// subject is what a question is about: the tool, if it is there, and the arguments, those that people
// approved or the call's own as they would run.
func subject(reg *snapshot, c events.Call, a *asked) (input []byte, t *tool) {
	t = reg.tool(c.Name)
	if reg.meta != nil && control(c.Name) {
		t = reg.meta
	}
	switch {
	case a.Input != nil:
		return a.Input, t
	case a.Suspended, t == nil, t.schema == nil:
		return c.Input, t
	}
	schema, err := t.schema()
	if err != nil {
		return c.Input, t // what was sent, then
	}
	clean, _, err := schema.Prepare(c.Input)
	if err != nil {
		return c.Input, t // it fitted an earlier definition
	}
	return clean, t
}

// errForged is returned when what a record holds is not what was asked about.
var errForged = errors.New("dispatcher: the stored call is not the one that was asked about")

// intact checks that a record still holds the call that was asked about, byte for byte.
func intact(t *turn, c events.Call, input []byte, a *asked) error {
	if got := events.Digest(c.Name, a.Definition, input, t.key(c.ID), a.Request); got != a.Digest {
		return fmt.Errorf("%w: %s", errForged, t.key(c.ID))
	}
	return nil
}
