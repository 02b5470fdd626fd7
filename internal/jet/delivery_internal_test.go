package jet

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestNewDelivery(t *testing.T) {
	t.Parallel()
	for reply, ok := range map[string]bool{
		"$JS.ACK.WORK.pool.2.30.40.1700000000000000001.5":                 true,
		"$JS.ACK._.hash.WORK.pool.2.30.40.1700000000000000001.5":          true,
		"$JS.ACK.hub.hash.WORK.pool.2.30.40.1700000000000000001.5.random": true,
		"":                                      false,
		"_INBOX.x.y":                            false,
		"$JS.ACK.WORK.pool.x.30.40.1.5":         false,
		"$JS.ACK.WORK.pool.2.30.40.notatime.5":  false,
		"$JS.ACK.WORK.pool.2.-30.40.1.5":        false,
		"$JS.NAK.WORK.pool.2.30.40.170000000.5": false,
	} {
		d, got := newDelivery(nil, &nats.Msg{Subject: "s", Reply: reply})
		if got != ok {
			t.Errorf("%q: got %v, want %v", reply, got, ok)
			continue
		}
		if ok && (d.Count != 2 || d.Seq != 30 || !d.Stored.Equal(time.Unix(0, 1700000000000000001))) {
			t.Errorf("%q: got %+v", reply, d)
		}
	}
}

func FuzzNewDelivery(f *testing.F) {
	f.Add("$JS.ACK.WORK.pool.2.30.40.1700000000000000001.5")
	f.Add("$JS.ACK._.hash.WORK.pool.2.30.40.1.5")
	f.Fuzz(func(t *testing.T, reply string) {
		if d, ok := newDelivery(nil, &nats.Msg{Reply: reply}); ok && d.reply != reply {
			t.Errorf("reply %q became %q", reply, d.reply)
		}
	})
}

func FuzzParseRef(f *testing.F) {
	f.Add("toolwire-body:abc?chunks=1&size=5&sha256=00")
	f.Fuzz(func(t *testing.T, ref string) {
		id, chunks, size, _, err := parseRef(ref)
		if err == nil && (id == "" || chunks < 1 || size < 0 || size > BodyMax || chunks > BodyMax/chunkMax) {
			t.Errorf("%q: got id %q, %d pieces, %d bytes", ref, id, chunks, size)
		}
	})
}

func TestAckSequence(t *testing.T) {
	t.Parallel()
	for ack, want := range map[string]uint64{
		`{"stream":"TOOLWIRE_WORK","seq":17}`:                          17,
		`{"stream":"X","domain":"hub","seq":9}`:                        9,
		`{"stream":"TOOLWIRE_WORK", "seq":17}`:                         0, // any other form goes to the decoder
		`{"stream":"TOOLWIRE_WORK","seq":17,"duplicate":true}`:         0,
		`{"error":{"code":503,"err_code":10077},"stream":"X","seq":0}`: 0,
		`{"stream":"X","seq":1,"error":{"code":503}}`:                  0,
		`{"stream":"X","seq":`:                                         0,
	} {
		got, ok := ackSequence([]byte(ack))
		if (want != 0) != ok || ok && got != want {
			t.Errorf("%s: got %d, %v, want %d", ack, got, ok, want)
		}
	}
}
