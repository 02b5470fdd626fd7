package jet

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Delivery is one message handed out by a consumer. Exactly one of Ack, Nak and Term ends
// it; without any, it is delivered again after [Lease].
type Delivery struct {
	Subject string
	Header  nats.Header
	Data    []byte
	Seq     uint64    // in the stream
	Count   int       // 1 on first delivery
	Stored  time.Time // when the stream stored it (server time)

	reply string
	nc    *nats.Conn
}

// Ack says that the message is dealt with. It is not awaited: a lost ack means a redelivery,
// which every handler bears.
func (d *Delivery) Ack() error { return d.say("+ACK") }

// Nak gives the message back, to be delivered again after delay. A bare Nak would come back at
// once and spin, so the delay is at least 10 ms.
func (d *Delivery) Nak(delay time.Duration) error {
	return d.say(fmt.Sprintf(`-NAK {"delay":%d}`, max(delay, 10*time.Millisecond).Nanoseconds()))
}

// InProgress renews the lease.
func (d *Delivery) InProgress() error { return d.say("+WPI") }

// Term removes the message for good. Copy and settle first: afterwards it is gone.
func (d *Delivery) Term(reason string) error { return d.say("+TERM " + reason) }

func (d *Delivery) say(what string) error {
	if err := d.nc.Publish(d.reply, []byte(what)); err != nil {
		return fmt.Errorf("%s %s: %w", strings.ToLower(strings.TrimLeft(what[:4], "+-")), d.Subject, err)
	}
	return nil
}

// newDelivery reads the metadata in the reply subject of m; false if m was sent by no consumer.
// Two forms exist: $JS.ACK.<stream>.<consumer>.<count>.<sseq>.<cseq>.<time>.<pending>, and one with
// domain and account hash before the stream.
func newDelivery(nc *nats.Conn, m *nats.Msg) (*Delivery, bool) {
	t := strings.Split(m.Reply, ".")
	switch {
	case len(t) == 9 && t[0] == "$JS" && t[1] == "ACK":
		t = t[4:]
	case len(t) >= 11 && t[0] == "$JS" && t[1] == "ACK":
		t = t[6:]
	default:
		return nil, false
	}
	count, err1 := strconv.Atoi(t[0])
	seq, err2 := strconv.ParseUint(t[1], 10, 64)
	ns, err3 := strconv.ParseInt(t[3], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return nil, false
	}
	return &Delivery{
		Subject: m.Subject, Header: m.Header, Data: m.Data,
		Seq: seq, Count: count, Stored: time.Unix(0, ns), reply: m.Reply, nc: nc,
	}, true
}
