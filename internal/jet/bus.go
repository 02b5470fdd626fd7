package jet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolwire/toolwire/events"
)

// Bus is one connection to an installation. It is safe for concurrent use.
type Bus struct {
	Names
	nc       *nats.Conn
	js       jetstream.JetStream
	requests *requests
	direct   atomic.Bool
	fetches  chan struct{}
	encoders sync.Pool // of *events.Encoder: free once the client has written what it made
}

// NewBus wraps a connection. The connection stays the caller's to close.
func NewBus(nc *nats.Conn, s events.Subjects) (*Bus, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	return &Bus{Names: Names{s}, nc: nc, js: js, requests: newRequests(nc), fetches: make(chan struct{}, fetchesMost)}, nil
}

// Conn is the connection itself, for core NATS.
func (b *Bus) Conn() *nats.Conn { return b.nc }

// JetStream is the client's own API, for topology and buckets.
func (b *Bus) JetStream() jetstream.JetStream { return b.js }

var (
	// ErrExists is returned when a subject that accepts one message already holds one.
	ErrExists = errors.New("jet: already stored")
	// ErrFull is returned when a stream is at its limit of size or count; nothing was lost.
	ErrFull = errors.New("jet: stream is full")
	// ErrNone is returned when no message is stored under a subject.
	ErrNone = errors.New("jet: nothing stored")
)

// attemptTimeout bounds one try of a publish or read; tries are repeated while the context
// lasts. A publish whose connection drops would otherwise wait for the whole context.
const attemptTimeout = 2 * time.Second

// Out is one event to be stored.
type Out struct {
	Subject string
	Event   events.Event
	MsgID   string      // Nats-Msg-Id; never on facts, where a duplicate ack would look like success
	Header  nats.Header // further headers, e.g. a schedule
}

// Store publishes and waits until the stream has it, trying again while ctx lasts.
// A body over [InlineMax] goes to BODIES first. [ErrExists]: the subject holds a message
// already, perhaps from an earlier try of this very call. [ErrFull]: the stream is at its limit.
func (b *Bus) Store(ctx context.Context, o Out) (seq uint64, err error) {
	x, ok := b.encoders.Get().(*events.Encoder)
	if !ok {
		x = new(events.Encoder)
	}
	defer b.encoders.Put(x)
	msg, err := b.message(ctx, x, o)
	if err != nil {
		return 0, err
	}
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		seq, err = b.try(ctx, msg)
		if err == nil || errors.Is(err, ErrExists) || errors.Is(err, ErrFull) || !retryable(err) {
			break
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("store %s: %w: %w", o.Subject, err, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
	if err != nil {
		return 0, fmt.Errorf("store %s: %w", o.Subject, err)
	}
	return seq, nil
}

// StoreAll stores every event, at once, and returns one sequence and one error per event in their order.
func (b *Bus) StoreAll(ctx context.Context, out []Out) ([]uint64, []error) {
	seqs, errs := make([]uint64, len(out)), make([]error, len(out))
	if len(out) == 1 {
		seqs[0], errs[0] = b.Store(ctx, out[0])
		return seqs, errs
	}
	var wg sync.WaitGroup
	gate := make(chan struct{}, 64)
	for i := range out {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			seqs[i], errs[i] = b.Store(ctx, out[i])
		})
	}
	wg.Wait()
	return seqs, errs
}

// Send publishes on core NATS: seen by whoever listens now, kept by nobody.
func (b *Bus) Send(subject string, e events.Event) error {
	h, data := events.Encode(e)
	return b.nc.PublishMsg(&nats.Msg{Subject: subject, Header: h, Data: data})
}

func (b *Bus) message(ctx context.Context, x *events.Encoder, o Out) (*nats.Msg, error) {
	if len(o.Event.Data) > InlineMax {
		ref, err := b.PutBody(ctx, o.Event.Data)
		if err != nil {
			return nil, err
		}
		o.Event.DataRef, o.Event.Data = ref, nil
	}
	h, data := x.Encode(o.Event)
	maps.Copy(h, o.Header)
	if o.MsgID != "" {
		h[nats.MsgIdHdr] = []string{o.MsgID}
	}
	return &nats.Msg{Subject: o.Subject, Header: h, Data: data}, nil
}

func (b *Bus) try(ctx context.Context, msg *nats.Msg) (uint64, error) {
	reply, err := b.requests.do(ctx, msg)
	if err != nil {
		return 0, err
	}
	if seq, ok := ackSequence(reply.Data); ok {
		return seq, nil
	}
	var ack struct {
		Seq   uint64              `json:"seq"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return 0, fmt.Errorf("publish acknowledgement: %w", err)
	}
	if ack.Error == nil {
		return ack.Seq, nil
	}
	// 10077 is the generic "store failed": only the text tells a second message from a full stream.
	if ack.Error.ErrorCode == 10077 {
		if strings.Contains(ack.Error.Description, "maximum messages per subject exceeded") {
			return 0, ErrExists
		}
		return 0, fmt.Errorf("%w: %w", ErrFull, ack.Error)
	}
	return 0, ack.Error
}

// ackSequence reads the one form of acknowledgement that every stored message of a call gets,
// {"stream":"NAME","seq":N}, without a JSON decoder; any other form is not ok.
func ackSequence(ack []byte) (seq uint64, ok bool) {
	rest, ok := bytes.CutPrefix(ack, []byte(`{"stream":"`))
	if !ok {
		return 0, false
	}
	_, rest, ok = bytes.Cut(rest, []byte(`","seq":`))
	if !ok {
		return 0, false
	}
	digits := bytes.TrimRight(rest, "} ")
	seq, err := strconv.ParseUint(string(digits), 10, 64)
	return seq, err == nil && len(digits) < len(rest)
}

// retryable says whether a publish may go through later: the server was away or without a leader.
func retryable(err error) bool {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return api.Code == 503 || api.Code == 429
	}
	return !errors.Is(err, nats.ErrMaxPayload) && !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, nats.ErrBadSubject)
}

// Stored is a message as a stream keeps it.
type Stored struct {
	Subject string
	Seq     uint64
	Time    time.Time // when the server stored it
	Event   events.Event
	Err     error // the message is no event: events.ErrMalformed
	Header  nats.Header
	Data    []byte
}

// Fact reads what is stored under a subject, from the stream's leader: a decision never rests
// on a follower's copy. [ErrNone] if there is nothing.
func (b *Bus) Fact(ctx context.Context, subject string) (*Stored, error) {
	return b.get(ctx, b.StreamOf(subject), map[string]any{"last_by_subj": subject})
}

// Next reads the first message of a stream at or after seq, from the leader. [ErrNone] past the end.
func (b *Bus) Next(ctx context.Context, stream string, seq uint64, filter string) (*Stored, error) {
	return b.get(ctx, stream, map[string]any{"seq": max(seq, 1), "next_by_subj": filter})
}

func (b *Bus) get(ctx context.Context, stream string, req map[string]any) (*Stored, error) {
	m, err := b.raw(ctx, stream, req)
	if err != nil {
		return nil, err
	}
	s := &Stored{Subject: m.Subject, Seq: m.Seq, Time: m.Time, Data: m.Data}
	if len(m.Header) > 0 { // unreadable ones are none, as in what a consumer delivers
		s.Header, _ = nats.DecodeHeadersMsg(m.Header)
	}
	s.Event, s.Err = b.Open(ctx, s.Header, s.Data)
	return s, nil
}

// At tells where and when the first message of a stream at or after seq was stored, whatever it
// holds, from the leader. [ErrNone] past the end.
func (b *Bus) At(ctx context.Context, stream string, seq uint64, filter string) (uint64, time.Time, error) {
	m, err := b.raw(ctx, stream, map[string]any{"seq": max(seq, 1), "next_by_subj": filter})
	if err != nil {
		return 0, time.Time{}, err
	}
	return m.Seq, m.Time, nil
}

// Delete removes one message by sequence. Removing what is gone is no error.
func (b *Bus) Delete(ctx context.Context, stream string, seq uint64) error {
	if err := b.remove(ctx, stream, seq); !errors.Is(err, ErrNone) {
		return err
	}
	return nil
}

// remove removes one message by sequence; [ErrNone]: it is gone, perhaps by an earlier try of this call.
func (b *Bus) remove(ctx context.Context, stream string, seq uint64) error {
	var resp struct {
		Error *jetstream.APIError `json:"error"`
	}
	body := fmt.Appendf(nil, `{"seq":%d,"no_erase":true}`, seq)
	if err := b.api(ctx, "STREAM.MSG.DELETE."+stream, body, &resp); err != nil {
		return fmt.Errorf("delete %s/%d: %w", stream, seq, err)
	}
	switch {
	case resp.Error == nil:
		return nil
	case resp.Error.Code == 404, resp.Error.ErrorCode == 10043, resp.Error.ErrorCode == 10057:
		return ErrNone
	}
	return fmt.Errorf("delete %s/%d: %w", stream, seq, resp.Error)
}

// Clear removes whatever a stream holds under one subject. What is gone already is no error.
func (b *Bus) Clear(ctx context.Context, subject string) error {
	var resp struct {
		Error *jetstream.APIError `json:"error"`
	}
	body, err := json.Marshal(map[string]string{"filter": subject})
	if err != nil {
		return err
	}
	if err := b.api(ctx, "STREAM.PURGE."+b.StreamOf(subject), body, &resp); err != nil {
		return fmt.Errorf("clear %s: %w", subject, err)
	}
	if resp.Error != nil {
		return fmt.Errorf("clear %s: %w", subject, resp.Error)
	}
	return nil
}

// ClearAt removes whatever a stream holds under one subject, which is probably the message seq: a purge
// costs more. What is gone already is no error; with seq 0 nothing is known.
func (b *Bus) ClearAt(ctx context.Context, subject string, seq uint64) error {
	if seq != 0 {
		if err := b.remove(ctx, b.StreamOf(subject), seq); !errors.Is(err, ErrNone) {
			return err
		}
	}
	return b.Clear(ctx, subject)
}

// api makes one JetStream API request, trying again while ctx lasts and nobody answers.
func (b *Bus) api(ctx context.Context, subject string, body []byte, into any) error {
	for {
		reply, err := b.requests.do(ctx, &nats.Msg{Subject: "$JS.API." + subject, Data: body})
		if err == nil {
			return json.Unmarshal(reply.Data, into)
		}
		if ctx.Err() != nil || !retryable(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Open decodes a message and fetches its body from BODIES if it is there.
func (b *Bus) Open(ctx context.Context, h nats.Header, data []byte) (events.Event, error) {
	e, err := events.Decode(h, data)
	if err != nil || e.DataRef == "" {
		return e, err
	}
	e.Data, err = b.GetBody(ctx, e.DataRef)
	return e, err
}
