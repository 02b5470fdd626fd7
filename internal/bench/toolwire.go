package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

// toolwire is the product as it runs: dispatcher, worker and agent, each on a connection of its
// own, one turn of one call at a time, with the arguments validated against a schema.
type toolwire struct {
	client  *agent.Client
	payload json.RawMessage
	ctx     context.CancelFunc
	running sync.WaitGroup
	callers sync.WaitGroup
	jobs    chan func() // to the callers
	conns   []*nats.Conn
	facts   jetstream.JetStream
}

const (
	benchTool    events.ToolName  = "bench_noop"
	benchSession events.SessionID = "bench"
)

type noop struct {
	Text string `json:"text" description:"anything"`
}

// startToolwire starts a dispatcher, a worker and an agent under a declared configuration; further are
// tools of the worker.
func startToolwire(ctx context.Context, connect func() (*nats.Conn, error), o Options, declared toolkit.Config, further ...*toolkit.Tool) (_ *toolwire, err error) {
	ctx, cancel := context.WithCancel(ctx)
	t := &toolwire{payload: payload(o.Size), ctx: cancel, jobs: make(chan func(), o.Window)}
	defer func() {
		if err != nil {
			t.stop()
		}
	}()
	var nc [4]*nats.Conn
	for i := range nc {
		if nc[i], err = connect(); err != nil {
			return nil, err
		}
		t.conns = append(t.conns, nc[i])
	}
	tool, err := toolkit.Define(string(benchTool), "Does nothing.",
		func(context.Context, noop) (string, error) { return "ok", nil },
		&toolkit.Options{ReadOnly: true, ConcurrencySafe: true})
	if err != nil {
		return nil, err
	}
	tools, err := crowd(o)
	if err != nil {
		return nil, err
	}
	for _, t := range append(further, tool) {
		if err := tools.Add(t); err != nil {
			return nil, err
		}
	}
	d, err := dispatcher.New(nc[0], dispatcher.Config{NoHistory: !o.History})
	if err != nil {
		return nil, err
	}
	w, err := workers.New(nc[1], tools, workers.Config{Name: "bench", Slots: o.Slots})
	if err != nil {
		return nil, err
	}
	if err := declare(ctx, nc[3], o, declared); err != nil {
		return nil, err
	}
	t.running.Go(func() { _ = d.Run(ctx) })
	t.running.Go(func() { _ = w.Run(ctx) })
	if t.client, err = agent.New(nc[2], agent.Config{}); err != nil { //nolint:contextcheck // a client lives until Close
		return nil, err
	}
	if t.facts, err = jetstream.New(nc[3]); err != nil {
		return nil, err
	}
	for range o.Window {
		t.callers.Go(func() {
			for job := range t.jobs {
				job()
			}
		})
	}
	return t, t.registered(ctx)
}

// crowd are the further tools.
func crowd(o Options) (*toolkit.Toolkit, error) {
	tools := toolkit.New()
	for i := range o.Tools {
		opts := toolkit.Options{ReadOnly: true, ConcurrencySafe: true}
		if o.Groups > 0 {
			opts.Group = "group" + strconv.Itoa(i%o.Groups)
		}
		t, err := toolkit.Define("bench_other_"+strconv.Itoa(i), "Is there.",
			func(context.Context, noop) (string, error) { return "ok", nil }, &opts)
		if err != nil {
			return nil, err
		}
		if err := tools.Add(t); err != nil {
			return nil, err
		}
	}
	return tools, nil
}

// groups are those that the further tools are in.
func groups(o Options) (c toolkit.Config) {
	for i := range o.Groups {
		c.Groups = append(c.Groups, toolkit.Group{Name: "group" + strconv.Itoa(i), Active: i%2 == 0})
	}
	return c
}

// declare stores a configuration before there is a dispatcher.
func declare(ctx context.Context, nc *nats.Conn, o Options, c toolkit.Config) error {
	bus, err := jet.NewBus(nc, events.Subjects{})
	if err != nil {
		return err
	}
	if err := jet.Ensure(ctx, bus.JetStream(), bus.Names, jet.Config{NoHistory: !o.History}); err != nil {
		return err
	}
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = bus.PutRecord(ctx, bus.SettingsBucket(), "config", data, 0)
	return err
}

// verdict counts results as JOURNAL has them, one subject for each call.
func (t *toolwire) verdict(ctx context.Context, calls int) (lost, duplicates int, err error) {
	n := jet.Names{}
	s, err := t.facts.Stream(ctx, n.JournalStream())
	if err != nil {
		return 0, 0, err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(n.Under("result")))
	if err != nil {
		return 0, 0, err
	}
	for _, count := range info.State.Subjects {
		duplicates += int(count) - 1
	}
	return calls - len(info.State.Subjects), duplicates, nil
}

// registered waits until the dispatcher knows the tool.
func (t *toolwire) registered(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		tool, err := t.client.Tool(ctx, benchTool)
		if err == nil && tool.Info.Workers > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the tool is not registered: %w", errors.Join(err, ctx.Err()))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// call has one of the agent's goroutines make a call; done runs once when its result is there. A call
// that fails is never done, so that it counts as lost.
func (t *toolwire) call(ctx context.Context, i int, done func()) error {
	t.jobs <- func() {
		p, err := t.client.Submit(ctx, agent.Turn{
			Session: benchSession, ID: events.TurnID(strconv.Itoa(i)), ReplyID: "r1",
			Calls:       []events.Call{{ID: "c1", Name: benchTool, Input: t.payload}},
			TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		})
		if err != nil {
			return
		}
		results, err := p.Await(ctx)
		if err == nil && results[0].Reason == events.ReasonOK {
			done()
		}
	}
	return nil
}

func (t *toolwire) stop() {
	t.ctx()
	t.running.Wait()
	close(t.jobs)
	t.callers.Wait()
	if t.client != nil {
		t.client.Close()
	}
	for _, nc := range t.conns {
		nc.Close()
	}
}
