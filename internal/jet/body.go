package jet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
)

const (
	// InlineMax is the most bytes of data an event carries itself; more goes to BODIES and the
	// event carries a dataref.
	InlineMax = 256 << 10
	// BodyMax is the most bytes a body may have.
	BodyMax = events.MaxSize
	// chunkMax is the most bytes of one piece of a body.
	chunkMax = 128 << 10
	// fetchesMost is how many bodies one process fetches at once: a reference of a few bytes stands for
	// up to [BodyMax].
	fetchesMost = 8
)

// ErrBody is returned when a body is missing, too large, or not what its reference says.
var ErrBody = errors.New("jet: body cannot be had")

// PutBody stores data in pieces and returns its reference:
// toolwire-body:<id>?chunks=<n>&size=<bytes>&sha256=<hex>.
func (b *Bus) PutBody(ctx context.Context, data []byte) (ref string, err error) {
	if len(data) > BodyMax {
		return "", fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrBody, len(data), BodyMax)
	}
	id := uuid.NewString()
	chunks := max(1, (len(data)+chunkMax-1)/chunkMax)
	for i := range chunks {
		piece := data[i*chunkMax : min(len(data), (i+1)*chunkMax)]
		if err := b.putChunk(ctx, id, i, piece); err != nil {
			return "", err
		}
	}
	sum := sha256.Sum256(data)
	return fmt.Sprintf("toolwire-body:%s?chunks=%d&size=%d&sha256=%s", id, chunks, len(data), hex.EncodeToString(sum[:])), nil
}

func (b *Bus) putChunk(ctx context.Context, id string, i int, piece []byte) error {
	msg := &nats.Msg{Subject: b.Body(id, i), Data: piece}
	for {
		_, err := b.try(ctx, msg)
		if err == nil || errors.Is(err, ErrExists) { // an earlier try, whose answer was lost
			return nil
		}
		if !retryable(err) || errors.Is(err, ErrFull) || ctx.Err() != nil {
			return fmt.Errorf("store body %s: %w", id, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// GetBody fetches what a reference names, and checks its size and SHA-256.
func (b *Bus) GetBody(ctx context.Context, ref string) ([]byte, error) {
	id, chunks, size, sum, err := parseRef(ref)
	if err != nil {
		return nil, err
	}
	select {
	case b.fetches <- struct{}{}:
		defer func() { <-b.fetches }()
	case <-ctx.Done():
		return nil, fmt.Errorf("fetch body %s: %w", id, context.Cause(ctx))
	}
	var data []byte
	for i := range chunks {
		tctx, cancel := context.WithTimeout(ctx, attemptTimeout)
		msg, err := b.nc.RequestWithContext(tctx, "$JS.API.DIRECT.GET."+b.BodiesStream()+"."+b.Body(id, i), nil)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("%w: %s piece %d: %w", ErrBody, id, i, err)
		}
		if st := msg.Header.Get("Status"); st != "" {
			return nil, fmt.Errorf("%w: %s piece %d: %s", ErrBody, id, i, st)
		}
		if data == nil { // the size is believed once there is a piece
			data = make([]byte, 0, size)
		}
		if data = append(data, msg.Data...); len(data) > size {
			break
		}
	}
	if got := sha256.Sum256(data); len(data) != size || hex.EncodeToString(got[:]) != sum {
		return nil, fmt.Errorf("%w: %s is not the body that its reference names", ErrBody, id)
	}
	return data, nil
}

func parseRef(ref string) (id string, chunks, size int, sum string, err error) {
	bad := func() (string, int, int, string, error) {
		return "", 0, 0, "", fmt.Errorf("%w: reference %q", ErrBody, ref)
	}
	u, err := url.Parse(ref)
	if err != nil || u.Scheme != "toolwire-body" || u.Opaque == "" {
		return bad()
	}
	q := u.Query()
	chunks, err1 := strconv.Atoi(q.Get("chunks"))
	size, err2 := strconv.Atoi(q.Get("size"))
	if err1 != nil || err2 != nil || size < 0 || size > BodyMax || chunks != max(1, (size+chunkMax-1)/chunkMax) {
		return bad()
	}
	if events.CheckID("body", u.Opaque) != nil {
		return bad()
	}
	return u.Opaque, chunks, size, q.Get("sha256"), nil
}
