package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/natstest"
)

// fleet stands for dispatchers and workers: it takes turns in, runs their calls by a function,
// and answers the API from the stored facts.
type fleet struct {
	*jet.Bus
	tb   testing.TB
	stop func()

	replies sync.WaitGroup // being made

	mu      sync.Mutex
	stopped bool
	ran     map[events.CallKey]int
	asked   map[string]int // operations of the API
	listed  []events.ToolInfo
	letter  map[uint64]events.DeadLetter

	revisions []uint64 // of the next pages of tools
}

// run answers a call; false leaves it without a result.
type run func(events.CallKey, events.Call) (events.ToolResult, bool)

func echo(_ events.CallKey, c events.Call) (events.ToolResult, bool) {
	return answer(c.ID, string(c.Input)), true
}

func hold(events.CallKey, events.Call) (events.ToolResult, bool) { return events.ToolResult{}, false }

func answer(call events.CallID, text string) events.ToolResult {
	return events.ToolResult{
		CallID: call, State: events.StateSuccess, Reason: events.ReasonOK,
		Content: []events.Content{events.Text(text)}, Meta: events.ResultMeta{FinishedAt: time.Unix(1, 0).UTC()},
	}
}

// text is what the only block of a result says.
func text(tb testing.TB, r events.ToolResult) string {
	tb.Helper()
	if len(r.Content) != 1 {
		tb.Fatalf("result %+v: want one block", r)
	}
	return r.Text()
}

// startFleet starts a fleet on a bus of its own; nil run: only the API.
func startFleet(tb testing.TB, bus *jet.Bus, run run) *fleet {
	tb.Helper()
	f := &fleet{Bus: bus, tb: tb, ran: map[events.CallKey]int{}, asked: map[string]int{}, letter: map[uint64]events.DeadLetter{}}
	stopAPI := f.serve()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	if run != nil {
		wg.Go(func() {
			_ = f.Pull(ctx, jet.PullConfig{Stream: f.CallsStream(), Consumer: jet.IntakeConsumer, Slots: 64}, func(d *jet.Delivery) {
				f.takeIn(ctx, d, run)
			})
		})
	}
	f.stop = sync.OnceFunc(func() {
		stopAPI()
		cancel()
		wg.Wait()
	})
	tb.Cleanup(func() { f.stop() })
	return f
}

func (f *fleet) takeIn(ctx context.Context, d *jet.Delivery, run run) {
	_, session, turn, err := f.ParseCalls(d.Subject)
	if err != nil {
		f.tb.Error(err)
		return
	}
	e, err := f.Open(ctx, d.Header, d.Data)
	var calls events.ToolCalls
	if err == nil {
		err = events.Unmarshal(e.Data, &calls)
	}
	if err != nil {
		if ctx.Err() == nil && !f.Conn().IsClosed() {
			f.tb.Errorf("turn %s: %v", d.Subject, err)
		}
		return
	}
	for _, c := range calls.Calls {
		k := events.CallKey{Session: session, Turn: turn, Call: c.ID}
		f.mu.Lock()
		f.ran[k]++
		f.mu.Unlock()
		if r, ok := run(k, c); ok {
			_ = f.settle(ctx, k, r)
		}
	}
	_ = d.Ack()
}

func (f *fleet) settle(ctx context.Context, k events.CallKey, r events.ToolResult) error {
	e, err := events.New(events.Attributes{
		ID: k.String() + "/result", Source: "/t", Type: events.TypeToolResult, Session: k.Session, Turn: k.Turn, Call: k.Call,
	}, r)
	if err != nil {
		return err
	}
	_, err = f.Store(ctx, jet.Out{Subject: f.Result(k), Event: e})
	return err
}

func (f *fleet) runs(k events.CallKey) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ran[k]
}

func (f *fleet) questions(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[op]
}

// serve answers the API until stopped.
func (f *fleet) serve() (stop func()) {
	svc, err := micro.AddService(f.Conn(), micro.Config{Name: "toolwire", Version: "1.0.0"})
	if err != nil {
		f.tb.Fatal(err)
	}
	for op, answer := range map[string]func(context.Context, events.AgentID, []byte) (any, error){
		events.OpTurn:      f.turn,
		events.OpResult:    f.result,
		events.OpCancel:    f.cancel,
		events.OpTools:     f.tools,
		events.OpTool:      f.tool,
		events.OpDead:      f.dead,
		events.OpDeadShow:  f.deadShow,
		events.OpDeadDrop:  f.deadDrop,
		events.OpDeadRetry: f.deadDrop,
	} {
		err := svc.AddEndpoint(op, micro.HandlerFunc(func(r micro.Request) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.asked[op]++; !f.stopped {
				f.replies.Go(func() { f.reply(r, answer) })
			}
		}), micro.WithEndpointSubject(f.Prefix()+".api.*."+op))
		if err != nil {
			f.tb.Fatal(err)
		}
	}
	return func() {
		_ = svc.Stop()
		f.mu.Lock()
		f.stopped = true
		f.mu.Unlock()
		f.replies.Wait()
	}
}

// reply publishes the answer itself: the request's own methods belong to the service's goroutine.
func (f *fleet) reply(r micro.Request, answer func(context.Context, events.AgentID, []byte) (any, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	a, _ := events.Untoken[events.AgentID](strings.Split(r.Subject(), ".")[2])
	out, err := answer(ctx, a, r.Data())
	m := &nats.Msg{Subject: r.Reply(), Header: nats.Header{}}
	if stored, ok := out.(*jet.Stored); ok && err == nil {
		m.Data, m.Header = stored.Data, stored.Header
	} else if err == nil {
		m.Data, err = json.Marshal(out)
	}
	if err != nil {
		var code codeError
		switch {
		case errors.As(err, &code):
		case errors.Is(err, jet.ErrNone):
			code = 404
		default:
			code = 503
		}
		m.Data, m.Header = nil, nats.Header{micro.ErrorCodeHeader: {strconv.Itoa(int(code))}, micro.ErrorHeader: {err.Error()}}
	}
	_ = f.Conn().PublishMsg(m) // whoever asked asks again
}

type codeError int

func (c codeError) Error() string { return "code " + strconv.Itoa(int(c)) }

func (f *fleet) turn(ctx context.Context, a events.AgentID, req []byte) (any, error) {
	var q events.TurnRequest
	if err := json.Unmarshal(req, &q); err != nil {
		return nil, codeError(400)
	}
	stored, err := f.Fact(ctx, f.Calls(a, q.Session, q.Turn))
	if err != nil {
		return nil, err
	}
	var calls events.ToolCalls
	if err := events.Unmarshal(stored.Event.Data, &calls); err != nil {
		return nil, err
	}
	out := events.TurnReply{Agent: a, AcceptedAt: stored.Time, EventID: stored.Event.ID}
	for _, c := range calls.Calls {
		s := events.CallStatus{CallID: c.ID, Name: c.Name, State: events.CallSubmitted}
		switch r, err := f.Fact(ctx, f.Result(events.CallKey{Session: q.Session, Turn: q.Turn, Call: c.ID})); {
		case err == nil:
			s.State, s.Result = events.CallFinished, events.State(r.Event.ID)
		case !errors.Is(err, jet.ErrNone):
			return nil, err
		}
		out.Calls = append(out.Calls, s)
	}
	return out, nil
}

func (f *fleet) result(ctx context.Context, _ events.AgentID, req []byte) (any, error) {
	var q events.ResultRequest
	if err := json.Unmarshal(req, &q); err != nil {
		return nil, codeError(400)
	}
	return f.Fact(ctx, f.Result(events.CallKey(q)))
}

func (f *fleet) cancel(ctx context.Context, a events.AgentID, req []byte) (any, error) {
	var q events.CancelRequest
	if err := json.Unmarshal(req, &q); err != nil {
		return nil, codeError(400)
	}
	stored, err := f.Fact(ctx, f.Calls(a, q.Session, q.Turn))
	if err != nil {
		return nil, err
	}
	var calls events.ToolCalls
	if err := events.Unmarshal(stored.Event.Data, &calls); err != nil {
		return nil, err
	}
	var out events.CancelReply
	for _, c := range calls.Calls {
		r := answer(c.ID, q.Reason)
		r.State, r.Reason = events.StateInterrupted, events.ReasonCancelled
		o := events.CancelOutcome{CallID: c.ID, Outcome: "cancelled"}
		if f.settle(ctx, events.CallKey{Session: q.Session, Turn: q.Turn, Call: c.ID}, r) != nil {
			o.Outcome = "too_late"
		}
		out.Calls = append(out.Calls, o)
	}
	return out, nil
}

// next says at which revisions the next pages of tools are.
func (f *fleet) next(revisions ...uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revisions = revisions
}

func (f *fleet) tools(_ context.Context, _ events.AgentID, req []byte) (any, error) {
	var q events.ToolsRequest
	if err := json.Unmarshal(req, &q); err != nil {
		return nil, codeError(400)
	}
	const page = 2
	var out events.ToolsReply
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.revisions) > 0 {
		out.SessionRevision, out.ConfigRevision = f.revisions[0], f.revisions[0]+10
		f.revisions = f.revisions[1:]
	}
	for _, t := range f.listed {
		switch {
		case nameOf(t) <= string(q.After):
		case len(out.Tools) == page:
			out.More = true
		default:
			out.Tools = append(out.Tools, t)
		}
	}
	return out, nil
}

func (f *fleet) tool(_ context.Context, _ events.AgentID, req []byte) (any, error) {
	var q events.ToolRequest
	if err := json.Unmarshal(req, &q); err != nil {
		return nil, codeError(400)
	}
	for _, t := range f.listed {
		if nameOf(t) == string(q.Name) {
			return t, nil
		}
	}
	return nil, codeError(404)
}

func nameOf(t events.ToolInfo) string {
	var d struct{ Name string }
	_ = json.Unmarshal(t.Definition, &d)
	return d.Name
}

func (f *fleet) dead(_ context.Context, _ events.AgentID, req []byte) (any, error) {
	var q events.DeadRequest
	if err := json.Unmarshal(req, &q); err != nil {
		return nil, codeError(400)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var out events.DeadReply
	for seq := uint64(100); seq > 0; seq-- {
		l, ok := f.letter[seq]
		switch {
		case !ok, q.Before > 0 && seq >= q.Before:
		case len(out.Letters) == 2:
			out.More = true
		default:
			l.Data = nil
			out.Letters = append(out.Letters, l)
		}
	}
	return out, nil
}

func (f *fleet) deadShow(_ context.Context, _ events.AgentID, req []byte) (any, error) {
	var q events.DeadRef
	_ = json.Unmarshal(req, &q)
	f.mu.Lock()
	defer f.mu.Unlock()
	l, ok := f.letter[q.Seq]
	if !ok {
		return nil, codeError(404)
	}
	return l, nil
}

func (f *fleet) deadDrop(_ context.Context, a events.AgentID, req []byte) (any, error) {
	var q events.DeadRef
	_ = json.Unmarshal(req, &q)
	if a != agent.DefaultAgent {
		return nil, codeError(403)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.letter[q.Seq]; !ok {
		return nil, codeError(404)
	}
	delete(f.letter, q.Seq)
	return struct{}{}, nil
}

// setup starts a server, a fleet and a client.
func setup(tb testing.TB, run run) (*natstest.Server, *fleet, *agent.Client) {
	tb.Helper()
	srv := natstest.Start(tb)
	f := startFleet(tb, srv.Bus(), run)
	return srv, f, newClient(tb, srv.Lasting(), agent.Config{})
}

func newClient(tb testing.TB, nc *nats.Conn, cfg agent.Config) *agent.Client {
	tb.Helper()
	c, err := agent.New(nc, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

func call(id, name, input string) events.Call {
	return events.Call{ID: events.CallID(id), Name: events.ToolName(name), Input: json.RawMessage(input)}
}
