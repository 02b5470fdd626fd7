package dispatcher

import (
	"context"

	"github.com/toolwire/toolwire/internal/jet"
)

// letter is a message that cannot be handled, and why.
type letter struct {
	what   string // token of the dead subject: calls, work, cancel …
	stream string // whence it came
	del    *jet.Delivery
	why    string
}

// bury copies a message to the dead letters, headers and bytes as they were. Doing so twice
// stores it once.
func (d *Dispatcher) bury(ctx context.Context, l letter) error {
	if err := d.at("bury"); err != nil {
		return err
	}
	if err := d.bus.Bury(ctx, l.what, l.stream, l.del, l.why); err != nil {
		return err
	}
	d.metrics.dead.WithLabelValues(l.what).Inc()
	return nil
}
