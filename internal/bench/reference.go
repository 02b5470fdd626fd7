package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// reference is the hand-written pipeline: call stream → forwarder → work stream → worker →
// result stream → republished copy. Every hop acknowledges its input once its output is stored.
type reference struct {
	caller  jetstream.JetStream
	payload []byte
	stops   []func()

	mu      sync.Mutex
	waiting map[string]func()
	stored  map[*nats.Msg]jetstream.Msg // output under way → input to acknowledge
	count   map[string]int              // results by call
}

const (
	refPrefetch = 1024
	refPending  = 4096
)

func startReference(ctx context.Context, connect func() (*nats.Conn, error), o Options) (*reference, error) {
	r := &reference{
		payload: payload(o.Size), waiting: map[string]func(){}, stored: map[*nats.Msg]jetstream.Msg{},
		count: map[string]int{},
	}
	admin, err := r.client(connect)
	if err != nil {
		return nil, err
	}
	for _, s := range []jetstream.StreamConfig{
		{Name: "REF_CALLS", Subjects: []string{"ref.call.>"}, Retention: jetstream.WorkQueuePolicy},
		{Name: "REF_WORK", Subjects: []string{"ref.work.>"}, Retention: jetstream.WorkQueuePolicy},
		{
			Name: "REF_RESULTS", Subjects: []string{"ref.result.>"},
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
			RePublish: &jetstream.RePublish{Source: "ref.result.>", Destination: "ref.live.>"},
		},
	} {
		if _, err := admin.CreateStream(ctx, s); err != nil {
			return nil, fmt.Errorf("reference stream: %w", err)
		}
	}
	if err := r.hop(ctx, connect, "REF_CALLS", "ref.work."); err != nil {
		return nil, err
	}
	if err := r.hop(ctx, connect, "REF_WORK", "ref.result."); err != nil {
		return nil, err
	}
	if r.caller, err = r.client(connect); err != nil {
		return nil, err
	}
	_, err = r.caller.Conn().Subscribe("ref.live.>", func(m *nats.Msg) {
		id := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		r.mu.Lock()
		done := r.waiting[id]
		delete(r.waiting, id)
		r.count[id]++
		r.mu.Unlock()
		if done != nil {
			done()
		}
	})
	if err != nil {
		return nil, fmt.Errorf("reference caller: %w", err)
	}
	return r, r.caller.Conn().Flush()
}

// client opens a connection whose stored publishes acknowledge their inputs.
func (r *reference) client(connect func() (*nats.Conn, error)) (jetstream.JetStream, error) {
	nc, err := connect()
	if err != nil {
		return nil, err
	}
	r.stops = append(r.stops, nc.Close)
	return jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(refPending),
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, out *nats.Msg, _ *jetstream.PubAck) {
			r.mu.Lock()
			in := r.stored[out]
			delete(r.stored, out)
			r.mu.Unlock()
			if in != nil {
				_ = in.Ack()
			}
		}))
}

func (r *reference) hop(ctx context.Context, connect func() (*nats.Conn, error), from, to string) error {
	js, err := r.client(connect)
	if err != nil {
		return err
	}
	c, err := js.CreateConsumer(ctx, from, jetstream.ConsumerConfig{
		Durable: "hop", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 4 * refPending, AckWait: 2 * time.Minute,
	})
	if err != nil {
		return fmt.Errorf("reference consumer: %w", err)
	}
	cc, err := c.Consume(func(in jetstream.Msg) {
		id := in.Subject()[strings.LastIndexByte(in.Subject(), '.')+1:]
		out := &nats.Msg{Subject: to + id, Header: in.Headers(), Data: in.Data()}
		r.mu.Lock()
		r.stored[out] = in
		r.mu.Unlock()
		_, _ = js.PublishMsgAsync(out, jetstream.WithStallWait(time.Minute))
	}, jetstream.PullMaxMessages(refPrefetch), jetstream.PullHeartbeat(500*time.Millisecond))
	if err != nil {
		return fmt.Errorf("reference consumer: %w", err)
	}
	r.stops = append(r.stops, cc.Stop)
	return nil
}

// call starts one call; done runs once when its result is there.
func (r *reference) call(_ context.Context, i int, done func()) error {
	id := strconv.Itoa(i)
	r.mu.Lock()
	r.waiting[id] = done
	r.mu.Unlock()
	_, err := r.caller.PublishMsgAsync(&nats.Msg{Subject: "ref.call." + id, Header: ceHeader(id), Data: r.payload},
		jetstream.WithStallWait(time.Minute))
	return err
}

// verdict counts results as the caller saw them.
func (r *reference) verdict(_ context.Context, calls int) (lost, duplicates int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.count {
		duplicates += n - 1
	}
	return calls - len(r.count), duplicates, nil
}

func (r *reference) stop() {
	for _, stop := range slices.Backward(r.stops) {
		stop()
	}
}

// ceHeader is a dozen CloudEvents attributes as an event of the contract has them.
func ceHeader(id string) nats.Header {
	h := nats.Header{}
	for k, v := range map[string]string{
		"specversion": "1.0", "id": id, "source": "/agents/bench", "type": "io.toolwire.v1.ToolCalls",
		"time": "2026-12-01T00:00:00.000000000Z", "datacontenttype": "application/json", "session": "bench",
		"turn": id, "callid": "c1", "replyid": "r1", "tool": "bench_noop",
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	} {
		h["ce-"+k] = []string{v}
	}
	return h
}

// payload is a JSON object of n bytes.
func payload(n int) []byte {
	const frame = `{"text":""}`
	return []byte(`{"text":"` + strings.Repeat("x", max(0, n-len(frame))) + `"}`)
}
