package dispatcher

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"

	"github.com/toolwire/toolwire/internal/jet"
)

// secretKey is where the secret of the installation lies, beside the configuration: by it, ids of
// questions cannot be guessed.
const secretKey = "secret"

// secretCache is the secret once it was read. It never changes.
type secretCache struct {
	mu    sync.Mutex
	value []byte
}

// secret reads the secret of the installation. The first dispatcher that needs it makes it.
func (d *Dispatcher) secret(ctx context.Context) ([]byte, error) {
	d.hidden.mu.Lock()
	defer d.hidden.mu.Unlock()
	if d.hidden.value != nil {
		return d.hidden.value, nil
	}
	for {
		r, err := d.bus.Record(ctx, d.bus.SettingsBucket(), secretKey)
		if errors.Is(err, jet.ErrNone) {
			fresh := make([]byte, 32)
			_, _ = rand.Read(fresh) // never fails
			_, err = d.bus.PutRecord(ctx, d.bus.SettingsBucket(), secretKey, []byte(hex.EncodeToString(fresh)), 0)
			if err == nil || errors.Is(err, jet.ErrConflict) {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		d.hidden.value = r.Data
		return r.Data, nil
	}
}
