package jet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolwire/toolwire/events"
)

// HeaderDeadBody tells where the bytes of a dead letter are that is too large to be stored as one message.
const HeaderDeadBody = "Toolwire-Dead-Body"

// Bury copies a message of a stream to the dead letters, headers and bytes as they were; what is a
// token of their subject. Doing so twice stores it once.
func (b *Bus) Bury(ctx context.Context, what, stream string, d *Delivery, why string) error {
	h := WithoutOrders(d.Header)
	h[events.HeaderDeadReason] = []string{OneLine(why)}
	h[events.HeaderDeadSubject] = []string{d.Subject}
	h[nats.MsgIdHdr] = []string{fmt.Sprintf("%s-%d", stream, d.Seq)}
	m := &nats.Msg{Subject: b.Dead(what, d.Subject), Header: h, Data: d.Data}
	if len(m.Data) > InlineMax { // near the message limit there is no room for a reason
		ref, err := b.PutBody(ctx, m.Data)
		if err != nil {
			return err
		}
		h[HeaderDeadBody] = []string{ref}
		m.Data = nil
	}
	err := b.Republish(ctx, m)
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.Code < 500 { // its headers leave no room
		m.Header = nats.Header{
			events.HeaderDeadReason:  {"headers left out: " + OneLine(why)},
			events.HeaderDeadSubject: {d.Subject},
			nats.MsgIdHdr:            h[nats.MsgIdHdr],
		}
		if ref := h[HeaderDeadBody]; ref != nil {
			m.Header[HeaderDeadBody] = ref
		}
		err = b.Republish(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("store dead letter: %w", err)
	}
	return nil
}

// Republish stores a message as it is, trying again while ctx lasts.
func (b *Bus) Republish(ctx context.Context, m *nats.Msg) error {
	for {
		tctx, cancel := context.WithTimeout(ctx, attemptTimeout)
		_, err := b.js.PublishMsg(tctx, m)
		cancel()
		api, refused := errors.AsType[*jetstream.APIError](err)
		if err == nil || refused && api.Code < 500 || errors.Is(err, nats.ErrMaxPayload) || b.nc.IsClosed() {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// WithoutOrders copies headers, less those that tell the server what to do with the message.
func WithoutOrders(in nats.Header) nats.Header {
	h := make(nats.Header, len(in)+3)
	for k, v := range in {
		if len(k) < 5 || !strings.EqualFold(k[:5], "Nats-") {
			h[k] = v
		}
	}
	return h
}

// OneLine makes text fit for a header: one line of printable ASCII, of a bounded length.
func OneLine(s string) string {
	const most = 1024
	b := make([]byte, 0, min(len(s), most))
	for _, r := range s {
		if len(b) >= most {
			break
		}
		if r < ' ' || r > '~' {
			r = '?'
		}
		b = append(b, byte(r))
	}
	return string(b)
}
