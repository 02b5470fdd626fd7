package events

import "fmt"

// MaxCalls is the greatest number of calls in one turn.
const MaxCalls = 1000

// Check says whether the turn can be taken in: 1 to [MaxCalls] calls, each with an id that no
// other call of the turn has, and a name that fits a subject. Whether such a tool exists is
// not asked here. The error is [ErrMalformed].
func (c *ToolCalls) Check() error {
	switch n := len(c.Calls); {
	case n == 0:
		return fmt.Errorf("%w: no calls", ErrMalformed)
	case n > MaxCalls:
		return fmt.Errorf("%w: %d calls in one turn, at most %d are allowed", ErrMalformed, n, MaxCalls)
	}
	for i := range c.Calls {
		call := &c.Calls[i]
		if err := CheckID("id", call.ID); err != nil {
			return fmt.Errorf("%w: calls[%d]: %w", ErrMalformed, i, err)
		}
		if err := CheckID("name", call.Name); err != nil {
			return fmt.Errorf("%w: calls[%d]: %w", ErrMalformed, i, err)
		}
	}
	return c.unique()
}

// unique checks that no two calls have one id.
func (c *ToolCalls) unique() error {
	if len(c.Calls) <= linearKeys {
		for i := range c.Calls {
			for j := range i {
				if c.Calls[i].ID == c.Calls[j].ID {
					return sameID(j, i, c.Calls[i].ID)
				}
			}
		}
		return nil
	}
	first := make(map[CallID]int, len(c.Calls))
	for i := range c.Calls {
		if j, dup := first[c.Calls[i].ID]; dup {
			return sameID(j, i, c.Calls[i].ID)
		}
		first[c.Calls[i].ID] = i
	}
	return nil
}

func sameID(i, j int, id CallID) error {
	return fmt.Errorf("%w: calls[%d] and calls[%d] have the same id %q", ErrMalformed, i, j, id)
}
