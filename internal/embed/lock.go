package embed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// errHeld is returned when another process holds the lock.
var errHeld = errors.New("embed: lock is held")

// lockStore takes the store directory for this process, until the file is closed or the process
// dies. The file stays: removing it would let two processes lock two files of one name.
func lockStore(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%w: store directory: %w; choose one that can be written with --store", ErrStart, err)
	}
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(filepath.Clean(path), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: store directory: %w; choose one that can be written with --store", ErrStart, err)
	}
	if err := lockExclusively(f); err != nil {
		pid := make([]byte, 20)
		n, _ := f.ReadAt(pid, 0)
		_ = f.Close()
		if errors.Is(err, errHeld) {
			return nil, fmt.Errorf("%w: %s is held by process %s; stop it, or choose another directory with --store", ErrInUse, dir, strings.TrimSpace(string(pid[:n])))
		}
		return nil, fmt.Errorf("%w: lock %s: %w; choose a directory on a local disk with --store", ErrStart, path, err)
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	return f, nil
}
