package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

const (
	apiVersion = "1.0.0"
	apiTimeout = 5 * time.Second
	apiAtOnce  = 64 // requests handled at once, by one dispatcher
)

// refusedError is an error of the API with its status; its text is for the caller.
type refusedError struct {
	code int
	text string
}

func (e *refusedError) Error() string { return e.text }

func refused(code int, format string, args ...any) error {
	return &refusedError{code, fmt.Sprintf(format, args...)}
}

// request is one question to the API. The actor is the token of the subject, which permissions
// pin to the credential.
type request struct {
	actor string
	data  []byte
}

func (r *request) read(into any) error {
	if err := events.Unmarshal(r.data, into); err != nil {
		return refused(http.StatusBadRequest, "the request cannot be read: %v", err)
	}
	return nil
}

// operation answers a request: with a value, sent as JSON, or with a stored event, sent as it is.
type operation func(ctx context.Context, r *request) (any, error)

func (d *Dispatcher) operations() map[string]operation {
	return map[string]operation{
		events.OpTools:        d.opTools,
		events.OpTool:         d.opTool,
		events.OpToolDrop:     d.operatorsOnly(d.opToolDrop),
		events.OpTurn:         d.opTurn,
		events.OpResult:       d.opResult,
		events.OpCancel:       d.opCancel,
		events.OpSessions:     d.opSessions,
		events.OpSession:      d.opSession,
		events.OpSessionSet:   d.opSessionSet,
		events.OpSessionDrop:  d.opSessionDrop,
		events.OpGroups:       d.opGroups,
		events.OpState:        d.opState,
		events.OpQuestions:    d.opQuestions,
		events.OpQuestion:     d.opQuestion,
		events.OpJudged:       d.opJudged,
		events.OpDecisions:    d.opDecisions,
		events.OpLife:         d.opLife,
		events.OpPermit:       d.opPermit,
		events.OpPermitReplay: d.operatorsOnly(d.opPermitReplay),
		events.OpConfig:       d.operatorsOnly(d.opConfig),
		events.OpConfigSet:    d.operatorsOnly(d.opConfigSet),
		events.OpDead:         d.operatorsOnly(d.opDead),
		events.OpDeadShow:     d.operatorsOnly(d.opDeadShow),
		events.OpDeadRetry:    d.operatorsOnly(d.opDeadRetry),
		events.OpDeadDrop:     d.operatorsOnly(d.opDeadDrop),
	}
}

// openAPI offers the micro service, and returns what serves it until its context ends and all requests
// under way are answered.
func (d *Dispatcher) openAPI(ctx context.Context) (serve func(context.Context) error, err error) {
	svc, err := micro.AddService(d.bus.Conn(), micro.Config{
		Name: d.bus.Prefix() + "-dispatcher", Version: apiVersion, Description: "tools, sessions, turns, results, questions, permissions, cancel, dead letters",
		Metadata: map[string]string{"instance": d.cfg.Instance},
	})
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	s := &apiServer{d: d, gate: make(chan struct{}, apiAtOnce)}
	for name, op := range d.operations() {
		subject := d.bus.APIs(name)
		err := svc.AddEndpoint(name, micro.HandlerFunc(func(r micro.Request) { s.handle(ctx, op, r) }), micro.WithEndpointSubject(subject))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("api %s: %w", name, err), svc.Stop())
		}
	}
	return func(ctx context.Context) error {
		<-ctx.Done()
		if err := svc.Stop(); err != nil && !d.bus.Conn().IsClosed() {
			d.log.Debug().Err(err).Msg("api did not stop cleanly")
		}
		s.close()
		return nil
	}, nil
}

// apiServer runs handlers beside each other, up to a limit, and waits for them at the end.
type apiServer struct {
	d    *Dispatcher
	gate chan struct{}

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

func (s *apiServer) handle(ctx context.Context, op operation, r micro.Request) {
	if reply := r.Reply(); reply != "" && !s.d.bus.Answerable(reply) {
		s.d.log.Warn().Str("subject", r.Subject()).Str("reply", reply).Msg("api request ignored, its answer would be more than that")
		return
	}
	select { // a full house holds up the subscription, not the memory
	case s.gate <- struct{}{}:
	case <-ctx.Done():
		_ = r.Error(strconv.Itoa(http.StatusServiceUnavailable), "the dispatcher is stopping; ask again", nil)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		<-s.gate
		_ = r.Error(strconv.Itoa(http.StatusServiceUnavailable), "the dispatcher is stopping; ask again", nil)
		return
	}
	s.wg.Go(func() {
		defer func() { <-s.gate }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiTimeout)
		defer cancel()
		s.d.answer(ctx, op, r)
	})
}

func (s *apiServer) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wg.Wait()
}

// answer publishes the answer itself: the request's own methods belong to the service's goroutine,
// which has gone on to the next request by now.
func (d *Dispatcher) answer(ctx context.Context, op operation, r micro.Request) {
	m := nats.NewMsg(r.Reply())
	out, err := d.ask(ctx, op, r)
	if stored, ok := out.(*jet.Stored); ok && err == nil {
		m.Data, m.Header = stored.Data, jet.WithoutOrders(stored.Header)
	} else if err == nil {
		m.Data, err = events.Marshal(out)
	}
	if err != nil {
		code, text := http.StatusServiceUnavailable, "the dispatcher could not answer; ask again"
		if bad, ok := errors.AsType[*refusedError](err); ok {
			code, text = bad.code, jet.OneLine(bad.text)
		} else {
			d.log.Warn().Err(err).Str("subject", r.Subject()).Msg("api request failed")
		}
		m.Data, m.Header = nil, nats.Header{micro.ErrorCodeHeader: {strconv.Itoa(code)}, micro.ErrorHeader: {text}}
	}
	if m.Subject == "" {
		return // whoever asked does not want to know
	}
	if err := d.bus.Conn().PublishMsg(m); err != nil {
		d.log.Debug().Err(err).Str("subject", r.Subject()).Msg("api request not answered")
	}
}

func (d *Dispatcher) ask(ctx context.Context, op operation, r micro.Request) (any, error) {
	tokens := strings.Split(r.Subject(), ".")
	if len(tokens) != 4 {
		return nil, refused(http.StatusBadRequest, "the subject is %s.api.<actor>.<operation>", d.bus.Prefix())
	}
	actor, err := events.Untoken[string](tokens[2])
	if err != nil {
		return nil, refused(http.StatusBadRequest, "the actor in the subject: %v", err)
	}
	return op(ctx, &request{actor, r.Data()})
}

// operatorsOnly keeps an operation to operators.
func (d *Dispatcher) operatorsOnly(op operation) operation {
	return func(ctx context.Context, r *request) (any, error) {
		if !d.operator(r.actor) {
			return nil, refused(http.StatusForbidden, "only operators may do this, %q is none", r.actor)
		}
		return op(ctx, r)
	}
}

// pageBytes is the most a page of a listing may hold, well below the message limit.
const pageBytes = 512 << 10

// opTools lists the tools that a session may call, as its model is to see them; without a
// session, all there are.
func (d *Dispatcher) opTools(ctx context.Context, r *request) (any, error) {
	var q events.ToolsRequest
	if err := r.read(&q); err != nil {
		return nil, err
	}
	if q.Limit <= 0 || q.Limit > 1000 {
		q.Limit = 100
	}
	reg := d.registry.snapshot()
	rec, err := d.seenBy(ctx, r.actor, q.Session, reg)
	if err != nil {
		return nil, err
	}
	out := events.ToolsReply{ConfigRevision: reg.revision, Tools: []events.ToolInfo{}}
	if rec != nil {
		out.SessionRevision = rec.revision
	}
	size := 0
	for t := range reg.listed(rec, q.After) {
		if size += len(t.raw); len(out.Tools) == q.Limit || size > pageBytes && len(out.Tools) > 0 {
			out.More = true
			break
		}
		out.Tools = append(out.Tools, d.toolInfo(ctx, t))
	}
	return out, nil
}

func (d *Dispatcher) opTool(ctx context.Context, r *request) (any, error) {
	var q events.ToolRequest
	if err := r.read(&q); err != nil {
		return nil, err
	}
	reg := d.registry.snapshot()
	t := reg.tool(q.Name)
	if reg.meta != nil && q.Name == resetTools {
		t = reg.meta
	}
	if t == nil {
		why := d.registry.refusals(q.Name)
		return nil, refused(http.StatusNotFound, "%s", strings.Join(append([]string{fmt.Sprintf("there is no tool %q", q.Name)}, why...), "; "))
	}
	return d.toolInfo(ctx, t), nil
}

// opToolDrop removes a tool that nobody runs any more.
func (d *Dispatcher) opToolDrop(ctx context.Context, r *request) (any, error) {
	var q events.ToolRequest
	if err := r.read(&q); err != nil {
		return nil, err
	}
	t := d.registry.snapshot().tool(q.Name)
	if t == nil {
		return nil, refused(http.StatusNotFound, "there is no tool %q", q.Name)
	}
	if n, _ := d.presence.alive(q.Name, t.source); n > 0 {
		return nil, refused(http.StatusConflict, "%d workers of %q run tool %q and would register it again; stop them first", n, t.source, q.Name)
	}
	if err := d.registry.remove(ctx, q.Name, t.revision); err != nil {
		return nil, err
	}
	return struct{}{}, d.bus.Send(d.bus.Changed("tool"), events.Event{Attributes: events.Attributes{
		ID: fmt.Sprintf("changed/tool/%s/%d/removed", q.Name, t.revision), Source: d.source(), Type: typeChanged, Tool: q.Name, Time: time.Now(),
	}, Extensions: map[string]string{"change": "removed", "worker": t.source}})
}

func (d *Dispatcher) toolInfo(ctx context.Context, t *tool) events.ToolInfo {
	out := events.ToolInfo{Definition: t.raw, Hash: t.hash, Pool: t.pool, Source: t.source}
	for _, g := range t.groups {
		out.Groups = append(out.Groups, g.Name)
	}
	if t.pool == "" { // the dispatcher itself runs it
		return out
	}
	info := d.infos.get(ctx, d.bus, t.pool)
	out.Workers, out.Unhealthy = d.presence.alive(t.def.Name, t.source)
	out.Backlog, out.InFlight = info.backlog, info.inFlight
	if t.broken != nil {
		out.Unhealthy = append(out.Unhealthy, t.broken.Error())
	}
	if t.note != "" {
		out.Unhealthy = append(out.Unhealthy, t.note)
	}
	out.Unhealthy = append(out.Unhealthy, d.registry.refusals(t.def.Name)...)
	return out
}

// infoTTL is how long the figures of a pool are good for.
const infoTTL = time.Second

// infoCache keeps the figures of pools for a moment, so that a listing costs one question per pool.
type infoCache struct {
	mu    sync.Mutex
	pools map[string]poolInfo
}

// poolInfo are the figures of a pool from its consumer's leader.
type poolInfo struct {
	at                time.Time
	backlog, inFlight uint64
	missing           bool // there is no consumer; zero calls wait
}

func (c *infoCache) get(ctx context.Context, bus *jet.Bus, pool string) poolInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.pools[pool]; ok && time.Since(p.at) < infoTTL {
		return p
	}
	if c.pools == nil {
		c.pools = make(map[string]poolInfo)
	}
	maps.DeleteFunc(c.pools, func(_ string, p poolInfo) bool { return time.Since(p.at) >= infoTTL })
	p := readPool(ctx, bus, pool)
	c.pools[pool] = p
	return p
}

func readPool(ctx context.Context, bus *jet.Bus, pool string) poolInfo {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	p := poolInfo{at: time.Now()}
	c, err := bus.JetStream().Consumer(ctx, bus.WorkStream(), events.Token(pool))
	if err != nil {
		p.missing = true
		return p
	}
	info := c.CachedInfo()
	p.backlog, p.inFlight = info.NumPending, uint64(max(info.NumAckPending, 0))
	return p
}
