package workers

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// variant is a tool as the installation wants it run.
type variant struct {
	raw     []byte // the tuning, as it came
	presets map[string]toolkit.Preset
	tool    *toolkit.Tool
	err     error // the tuning does not fit the tool
}

var errTuning = errors.New("workers: the tuning is malformed")

func newVariant(t *toolkit.Tool, raw []byte) *variant {
	v := &variant{raw: bytes.Clone(raw)}
	var tuning toolkit.Tuning
	if events.Unmarshal(v.raw, &tuning) != nil { // whose error may quote a value
		v.err = errTuning
		return v
	}
	v.presets = tuning.Presets
	v.tool, v.err = t.Tuned(tuning)
	return v
}

// tune is the tool for a call, and the values that are preset for it. All calls of a tool come
// with one tuning until the configuration changes, so the last variant is kept.
func (w *Worker) tune(c *call, t *tool) (*toolkit.Tool, map[string]json.RawMessage, error) {
	if len(c.work.Tuning) == 0 {
		return t.Tool, nil, nil
	}
	v := t.variant.Load()
	if v == nil || !bytes.Equal(v.raw, c.work.Tuning) {
		v = newVariant(t.Tool, c.work.Tuning)
		t.variant.Store(v)
	}
	if v.err != nil || t.external {
		return v.tool, nil, v.err
	}
	values, err := w.secrets.resolve(v.presets)
	return v.tool, values, err
}
