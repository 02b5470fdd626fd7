package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/toolwire/toolwire/events"
)

// Record is one entry of a bucket.
type Record struct {
	Data     []byte
	Revision uint64    // sequence in the bucket's stream
	At       time.Time // when the server stored it
}

// ErrConflict is returned when a record has changed since it was read.
var ErrConflict = errors.New("jet: the record was changed meanwhile")

// Record reads an entry of a bucket, [ErrNone] if there is none. It is what was stored last: the
// leader answers, or, where direct reads are on, the only copy there is (see [Names.Streams]).
func (b *Bus) Record(ctx context.Context, bucket, key string) (*Record, error) {
	for {
		r, err := b.record(ctx, bucket, key)
		if err == nil || errors.Is(err, ErrNone) || ctx.Err() != nil || !retryable(err) {
			return r, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (b *Bus) record(ctx context.Context, bucket, key string) (*Record, error) {
	subject := "$KV." + bucket + "." + key
	if !b.direct.Load() {
		m, err := b.raw(ctx, "KV_"+bucket, map[string]any{"last_by_subj": subject})
		if err != nil {
			return nil, err
		}
		return &Record{Data: m.Data, Revision: m.Seq, At: m.Time}, nil
	}
	m, err := b.requests.do(ctx, &nats.Msg{Subject: "$JS.API.DIRECT.GET.KV_" + bucket + "." + subject})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", subject, err)
	case m.Header.Get("Status") == "404":
		return nil, ErrNone
	case m.Header.Get("Status") != "":
		return nil, fmt.Errorf("read %s: %s %s", subject, m.Header.Get("Status"), m.Header.Get("Description"))
	}
	seq, err1 := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	at, err2 := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("read %s: %w", subject, err)
	}
	return &Record{Data: m.Data, Revision: seq, At: at}, nil
}

// ReadDirectly says that buckets have one copy, which may be asked instead of the API of its
// leader. With more, a follower would answer that may lag behind.
func (b *Bus) ReadDirectly(one bool) { b.direct.Store(one) }

// PutRecord writes an entry in the place of the one at revision (0: none must be there), and
// returns its own. [ErrConflict]: another one is there, perhaps from an earlier try of this call.
func (b *Bus) PutRecord(ctx context.Context, bucket, key string, data []byte, revision uint64) (uint64, error) {
	return b.swap(ctx, &nats.Msg{Subject: "$KV." + bucket + "." + key, Data: data, Header: nats.Header{}}, revision)
}

// swap publishes a message in the place of the one at revision.
func (b *Bus) swap(ctx context.Context, msg *nats.Msg, revision uint64) (uint64, error) {
	msg.Header[nats.ExpectedLastSubjSeqHdr] = []string{strconv.FormatUint(revision, 10)}
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		seq, err := b.try(ctx, msg)
		if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
			return 0, ErrConflict
		}
		if err == nil || errors.Is(err, ErrFull) || !retryable(err) {
			return seq, err
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("write %s: %w: %w", msg.Subject, err, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

// DropRecord removes an entry by its revision. [ErrConflict]: it was changed meanwhile, or is gone.
func (b *Bus) DropRecord(ctx context.Context, bucket string, revision uint64) error {
	err := b.remove(ctx, "KV_"+bucket, revision)
	if errors.Is(err, ErrNone) {
		return ErrConflict
	}
	return err
}

// Document reads what a tool keeps for a session under a name, from the leader; [ErrNone]: nothing.
func (b *Bus) Document(ctx context.Context, session events.SessionID, name string) (*Record, error) {
	m, err := b.raw(ctx, b.StateStream(), map[string]any{"last_by_subj": b.State(session, name)})
	if err != nil {
		return nil, err
	}
	return &Record{Data: m.Data, Revision: m.Seq, At: m.Time}, nil
}

// PutDocument writes what a tool keeps, in the place of the document at revision (0: none must be
// there). [ErrConflict]: another one is there. A write whose acknowledgement was lost is found again
// by its id, so that the change is not taken for refused and made twice.
func (b *Bus) PutDocument(ctx context.Context, session events.SessionID, name string, data []byte, revision uint64) (uint64, error) {
	id := nuid.Next()
	seq, err := b.swap(ctx, &nats.Msg{Subject: b.State(session, name), Data: data, Header: nats.Header{nats.MsgIdHdr: {id}}}, revision)
	if !errors.Is(err, ErrConflict) {
		return seq, err
	}
	now, readErr := b.raw(ctx, b.StateStream(), map[string]any{"last_by_subj": b.State(session, name)})
	if readErr != nil {
		return 0, err
	}
	if h, headErr := nats.DecodeHeadersMsg(now.Header); headErr == nil && h.Get(nats.MsgIdHdr) == id {
		return now.Seq, nil
	}
	return 0, err
}

// RecordAfter reads the first entry of a bucket at or after a revision, whatever its key; [ErrNone]
// past the end.
func (b *Bus) RecordAfter(ctx context.Context, bucket string, revision uint64) (key string, r *Record, err error) {
	prefix := "$KV." + bucket + "."
	m, err := b.raw(ctx, "KV_"+bucket, map[string]any{"seq": max(revision, 1), "next_by_subj": prefix + ">"})
	if err != nil {
		return "", nil, err
	}
	return m.Subject[len(prefix):], &Record{Data: m.Data, Revision: m.Seq, At: m.Time}, nil
}

// Subjects lists the subjects of a stream that match filter and hold a message, as its leader has them.
func (b *Bus) Subjects(ctx context.Context, stream, filter string) ([]string, error) {
	var all []string
	for {
		var resp struct {
			Error *jetstream.APIError `json:"error"`
			Total int                 `json:"total"`
			State struct {
				Subjects map[string]uint64 `json:"subjects"`
			} `json:"state"`
		}
		body, err := json.Marshal(map[string]any{"subjects_filter": filter, "offset": len(all)})
		if err != nil {
			return nil, err
		}
		if err := b.api(ctx, "STREAM.INFO."+stream, body, &resp); err != nil {
			return nil, fmt.Errorf("subjects of %s: %w", stream, err)
		}
		if resp.Error != nil {
			return nil, fmt.Errorf("subjects of %s: %w", stream, resp.Error)
		}
		for subject := range resp.State.Subjects {
			all = append(all, subject)
		}
		if len(resp.State.Subjects) == 0 || len(all) >= resp.Total {
			return all, nil
		}
	}
}

// rawMessage is a message as the API of a stream's leader gives it.
type rawMessage struct {
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	Header  []byte    `json:"hdrs"`
	Data    []byte    `json:"data"`
	Time    time.Time `json:"time"`
}

// raw reads one message from the leader of a stream; [ErrNone]: there is none.
func (b *Bus) raw(ctx context.Context, stream string, req map[string]any) (*rawMessage, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	var resp struct {
		Error   *jetstream.APIError `json:"error"`
		Message *rawMessage         `json:"message"`
	}
	if err := b.api(ctx, "STREAM.MSG.GET."+stream, body, &resp); err != nil {
		return nil, fmt.Errorf("read %s: %w", stream, err)
	}
	switch {
	case resp.Error != nil && resp.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, ErrNone
	case resp.Error != nil:
		return nil, fmt.Errorf("read %s: %w", stream, resp.Error)
	case resp.Message == nil:
		return nil, ErrNone
	}
	return resp.Message, nil
}
