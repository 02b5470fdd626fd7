package dispatcher

import (
	"encoding/json"
	"testing"

	"github.com/rs/zerolog"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/natstest"
	"github.com/toolwire/toolwire/toolkit"
)

// A tool that another dispatcher has just registered is known here, though the mirror has not heard
// of it yet.
func TestMirrorThatIsBehind(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	bus := s.Bus()
	other, behind := newRegistry(bus, zerolog.Nop()), newRegistry(bus, zerolog.Nop()) // neither watches
	def := toolkit.Definition{Name: "new", InputSchema: json.RawMessage(`{"type":"object"}`)}
	calls := []events.Call{{ID: "c1", Name: "new"}, {ID: "c2", Name: "none"}, {ID: "c3", Name: "new"}}
	if reg, err := behind.covering(t.Context(), calls); err != nil || len(reg.tools) != 0 {
		t.Fatalf("before: got %v, %v", reg, err)
	}
	if won, err := other.write(t.Context(), "new", entry{Definition: def.JSON(), Hash: def.Hash(), Pool: "p"}, 0, nil); err != nil || !won {
		t.Fatal(won, err)
	}
	reg, err := behind.covering(t.Context(), calls)
	if err != nil {
		t.Fatal(err)
	}
	if got := reg.tool("new"); len(reg.late) != 1 || got == nil || got.hash != def.Hash() || got.pool != "p" {
		t.Errorf("got %v, want the new tool alone", reg.late)
	}
}
