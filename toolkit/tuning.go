package toolkit

// Shown is the definition as a model is to see it under t.
func (d Definition) Shown(Tuning) (Definition, error) { return d, nil }
