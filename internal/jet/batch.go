package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Batch reads up to n messages of a stream after seq by one request, of whichever copy of the stream
// answers: what it returns may lag behind, so nothing may be decided by it. No message is no error. There
// may be fewer than there are, never none where there are some.
func (b *Bus) Batch(ctx context.Context, stream, filter string, after uint64, n int) ([]*Stored, error) {
	for {
		out, err := b.batch(ctx, stream, filter, after, n)
		if err == nil || ctx.Err() != nil || len(out) == 0 && !retryable(err) {
			return out, err
		}
		if len(out) > 0 {
			return out, nil // the rest is for the next one
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// batchBytes is the most bytes of one batch, so that a slow reader is not cut off by the server.
const batchBytes = 4 << 20

func (b *Bus) batch(ctx context.Context, stream, filter string, after uint64, n int) (out []*Stored, err error) {
	body, err := json.Marshal(map[string]any{"seq": after + 1, "next_by_subj": filter, "batch": n, "max_bytes": batchBytes})
	if err != nil {
		return nil, err
	}
	inbox := b.nc.NewInbox()
	sub, err := b.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ignoreClosed(sub.Unsubscribe())) }()
	if err := b.nc.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, body); err != nil {
		return nil, err
	}
	tctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	for {
		m, err := sub.NextMsgWithContext(tctx)
		if err != nil {
			return out, err
		}
		switch m.Header.Get("Status") {
		case "":
		case "204", "404": // the end; nothing there
			return out, nil
		case "503":
			return out, nats.ErrNoResponders
		default:
			return out, fmt.Errorf("read %s: %s %s", stream, m.Header.Get("Status"), m.Header.Get("Description"))
		}
		s, err := b.stored(ctx, m)
		if err != nil {
			return out, fmt.Errorf("read %s: %w", stream, err)
		}
		out = append(out, s)
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrBadSubscription) {
		return nil
	}
	return err
}

// stored reads a message as a direct read answers with it.
func (b *Bus) stored(ctx context.Context, m *nats.Msg) (*Stored, error) {
	seq, err1 := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	at, err2 := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	s := &Stored{Subject: m.Header.Get("Nats-Subject"), Seq: seq, Time: at, Header: m.Header, Data: m.Data}
	for _, name := range [...]string{"Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Num-Pending", "Nats-Last-Sequence"} {
		s.Header.Del(name)
	}
	s.Event, s.Err = b.Open(ctx, s.Header, s.Data)
	return s, nil
}
