package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// letter is a message that cannot be handled, and why.
type letter struct {
	what   string // token of the dead subject: calls, work, cancel …
	stream string // whence it came
	del    *jet.Delivery
	why    string
}

// headerDeadBody tells where the bytes of a letter are that is too large to be stored as one message.
const headerDeadBody = "Toolwire-Dead-Body"

// bury copies a message to the dead letters, headers and bytes as they were. Doing so twice
// stores it once.
func (d *Dispatcher) bury(ctx context.Context, l letter) error {
	if err := d.at("bury"); err != nil {
		return err
	}
	h := withoutOrders(l.del.Header)
	h[events.HeaderDeadReason] = []string{clean(l.why)}
	h[events.HeaderDeadSubject] = []string{l.del.Subject}
	h[nats.MsgIdHdr] = []string{fmt.Sprintf("%s-%d", l.stream, l.del.Seq)}
	m := &nats.Msg{Subject: d.bus.Dead(l.what, l.del.Subject), Header: h, Data: l.del.Data}
	if len(m.Data) > jet.InlineMax { // near the message limit there is no room for a reason
		ref, err := d.bus.PutBody(ctx, m.Data)
		if err != nil {
			return err
		}
		h[headerDeadBody] = []string{ref}
		m.Data = nil
	}
	err := d.publish(ctx, m)
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.Code < 500 { // its headers leave no room
		m.Header = nats.Header{
			events.HeaderDeadReason:  {"headers left out: " + clean(l.why)},
			events.HeaderDeadSubject: {l.del.Subject},
			nats.MsgIdHdr:            h[nats.MsgIdHdr],
		}
		err = d.publish(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("store dead letter: %w", err)
	}
	d.metrics.dead.WithLabelValues(l.what).Inc()
	return nil
}

// withoutOrders copies headers, less those that tell the server what to do with the message.
func withoutOrders(in nats.Header) nats.Header {
	h := make(nats.Header, len(in)+3)
	for k, v := range in {
		if len(k) < 5 || !strings.EqualFold(k[:5], "Nats-") {
			h[k] = v
		}
	}
	return h
}

// publish stores a message as it is, trying again while ctx lasts.
func (d *Dispatcher) publish(ctx context.Context, m *nats.Msg) error {
	for {
		tctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := d.bus.JetStream().PublishMsg(tctx, m)
		cancel()
		api, refused := errors.AsType[*jetstream.APIError](err)
		if err == nil || refused && api.Code < 500 || errors.Is(err, nats.ErrMaxPayload) || d.bus.Conn().IsClosed() {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// clean makes text fit for a header: one line of printable ASCII, of a bounded length.
func clean(s string) string {
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
