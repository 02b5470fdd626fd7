package dispatcher

// ErrDied is what a fault returns to stop a dispatcher where it stands.
var ErrDied = errDied

// SetFault has the dispatcher call f between any two publishes; an error of f stops the
// handler there as a crash would.
func (d *Dispatcher) SetFault(f func(step string) error) { d.fault = f }

// Tools is how many tools the dispatcher knows.
func (d *Dispatcher) Tools() int { return len(d.registry.snapshot().tools) }

// Refusals is of how many tools an announcement is refused.
func (d *Dispatcher) Refusals() int {
	d.registry.mu.Lock()
	defer d.registry.mu.Unlock()
	return len(d.registry.refused)
}
