package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
)

const (
	outsideTool events.ToolName = "bench_outside" // answered outside
	askTool     events.ToolName = "bench_ask"     // asked about, then run
	benchActor                  = "approver"      // who answers
)

// parking parks calls as an agent, lists and answers them as somebody else, and counts what comes of it.
// Of a parked call it keeps 32 bytes, and what an answer needs once it was listed.
type parking struct {
	o      ParkedOptions
	served *Served
	calls  *toolwire // for ordinary calls
	next   int       // of the ordinary calls
	ran    atomic.Int64

	names    jet.Names
	js       jetstream.JetStream // of the agent and of whoever answers
	approver *agent.Client
	conns    []*nats.Conn
	idle     int // messages of TIMERS while nothing is parked

	parked int    // so far; also the number of the next one
	open   []open // listed and not answered

	mu       sync.Mutex
	answered []time.Time // by number of the call: when its answer was published
	arrived  []time.Time // when its result was seen first
	results  int         // seen, of different calls
	extra    int         // seen again
	judged   int
	refused  int
	changed  chan struct{} // closed at the next change
}

// open is a question that was listed.
type open struct {
	number          int
	request, digest string
}

func newParking(ctx context.Context, served *Served, o ParkedOptions) (_ *parking, err error) {
	n := o.Parked + o.Singles
	p := &parking{
		o: o, served: served, answered: make([]time.Time, n), arrived: make([]time.Time, n), changed: make(chan struct{}),
		open: make([]open, 0, o.Parked),
	}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	asked, err := toolkit.Define(string(askTool), "Does something.",
		func(context.Context, noop) (string, error) { p.ran.Add(1); return "ok", nil }, &toolkit.Options{ConcurrencySafe: true})
	if err != nil {
		return nil, err
	}
	declared := groups(o.Options)
	declared.Permissions = permission.Context{
		Mode: permission.Bypass, Rules: []permission.Rule{{Tool: string(askTool), Behavior: permission.Ask}},
	}
	declared.External = []toolkit.Definition{{
		Name: outsideTool, Description: "Answered by others.", ConcurrencySafe: true, External: true, InputSchema: asked.Definition().InputSchema,
	}}
	if p.calls, err = startToolwire(ctx, served.Connect, o.Options, declared, asked); err != nil {
		return nil, err
	}
	var nc [3]*nats.Conn
	for i := range nc {
		if nc[i], err = served.Connect(); err != nil {
			return nil, err
		}
		p.conns = append(p.conns, nc[i])
	}
	if p.js, err = jetstream.New(nc[0], jetstream.WithPublishAsyncMaxPending(refPending)); err != nil {
		return nil, err
	}
	if p.approver, err = agent.New(nc[1], agent.Config{Agent: benchActor}); err != nil { //nolint:contextcheck // a client lives until Close
		return nil, err
	}
	if err := p.watch(nc[2]); err != nil {
		return nil, err
	}
	p.idle, err = p.count(ctx, p.names.TimersStream())
	return p, err
}

// key names a parked call by its number; number is the inverse.
func (p *parking) key(i int) events.CallKey {
	return events.CallKey{
		Session: events.SessionID("parked" + strconv.Itoa(i%p.o.Sessions)), Turn: events.TurnID("p" + strconv.Itoa(i)), Call: "c1",
	}
}

func number(k events.CallKey) (int, bool) {
	digits, ok := strings.CutPrefix(string(k.Turn), "p")
	i, err := strconv.Atoi(digits)
	return i, ok && err == nil
}

// park submits n calls, each in a turn of its own, and waits until all of them are parked.
func (p *parking) park(ctx context.Context, n int) error {
	tool := outsideTool
	if p.o.Kind == events.KindConfirm {
		tool = askTool
	}
	body := events.ToolCalls{Calls: []events.Call{{ID: "c1", Name: tool, Input: payload(p.o.Size)}}}
	for range n {
		k := p.key(p.parked)
		e, err := events.New(events.Attributes{
			ID: string(k.Turn), Source: "/agents/local", Type: events.TypeToolCalls, Time: time.Now(), Session: k.Session, Turn: k.Turn, ReplyID: "r1",
			TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		}, body)
		if err != nil {
			return err
		}
		if err := p.publish(p.names.Calls("local", k.Session, k.Turn), e); err != nil {
			return err
		}
		p.parked++
	}
	if err := p.published(ctx); err != nil {
		return err
	}
	return p.settled(ctx, n)
}

func (p *parking) publish(subject string, e events.Event) error {
	h, data := events.Encode(e)
	_, err := p.js.PublishMsgAsync(&nats.Msg{Subject: subject, Header: h, Data: data}, jetstream.WithStallWait(time.Minute))
	return err
}

// published waits until all that was published is stored.
func (p *parking) published(ctx context.Context) error {
	select {
	case <-p.js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Minute):
		return errLost
	}
}

// list pages through all open questions, and keeps what answers to them need.
func (p *parking) list(ctx context.Context) error {
	seen := make(map[string]bool, cap(p.open))
	for q, err := range p.approver.Questions(ctx, events.QuestionsRequest{Limit: 500}) {
		if err != nil {
			return err
		}
		i, ok := number(events.CallKey{Turn: q.Turn})
		if !ok || seen[q.Question.RequestID] {
			return fmt.Errorf("question %s about turn %s is listed twice, or not ours", q.Question.RequestID, q.Turn)
		}
		seen[q.Question.RequestID] = true
		p.open = append(p.open, open{i, q.Question.RequestID, q.Question.Digest})
	}
	if want := p.parked - p.seen(); len(p.open) != want {
		return fmt.Errorf("%d open questions are listed, not %d", len(p.open), want)
	}
	// People do not answer in the order in which they were asked.
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(p.open), func(i, j int) { p.open[i], p.open[j] = p.open[j], p.open[i] }) //nolint:gosec // for no secret
	return nil
}

// settled waits until as many calls are parked as should be and nothing else is under way; [errLost]: it
// does not come to that in a minute without change.
func (p *parking) settled(ctx context.Context, parked int) error {
	patience, last := time.Now().Add(time.Minute), ""
	for {
		n, err := p.counts(ctx)
		if err != nil {
			return err
		}
		if n == [...]int{parked, parked, parked, 0, 0, 0} {
			return nil
		}
		if now := fmt.Sprint(n); now != last {
			patience, last = time.Now().Add(time.Minute), now
		}
		if time.Now().After(patience) {
			return fmt.Errorf("%w: questions, timers, records, work, inbox and turns to be taken are %s", errLost, last)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// counts are the open questions, their timers, the records of turns, and what is queued: work, what is
// said to dispatchers, and turns.
func (p *parking) counts(ctx context.Context) (n [6]int, err error) {
	for i, stream := range []string{
		p.names.QuestionsStream(), p.names.TimersStream(), "KV_" + p.names.TurnsBucket(), p.names.WorkStream(), p.names.InboxStream(),
	} {
		if n[i], err = p.count(ctx, stream); err != nil {
			return n, err
		}
	}
	n[1] = max(0, n[1]-p.idle)
	c, err := p.js.Consumer(ctx, p.names.CallsStream(), jet.IntakeConsumer)
	if err != nil {
		return n, err
	}
	n[5] = int(c.CachedInfo().NumPending) + c.CachedInfo().NumAckPending
	return n, nil
}

func (p *parking) count(ctx context.Context, stream string) (int, error) {
	s, err := p.js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	return int(s.CachedInfo().State.Msgs), nil
}

// left is what remains where nothing should.
func (p *parking) left(ctx context.Context) (total int, err error) {
	n, err := p.counts(ctx)
	for _, v := range n {
		total += v
	}
	return total, err
}

func (p *parking) stop() {
	if p.approver != nil {
		p.approver.Close()
	}
	if p.calls != nil {
		p.calls.stop()
	}
	for _, nc := range p.conns {
		nc.Close()
	}
}

// size is how many bytes the files under a directory have. Files may come and go meanwhile.
func size(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}
