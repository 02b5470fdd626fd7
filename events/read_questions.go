package events

import "encoding/json"

// withoutNulls makes raw JSON that is null what it is as if left out, where both mean the same. To run a call
// with null in the place of its arguments is nothing that anybody approves.
func withoutNulls(v any) {
	switch v := v.(type) {
	case *UserConfirmResult:
		v.Input = leftOut(v.Input)
	case *ExternalExecutionResult:
		v.StructuredContent = leftOut(v.StructuredContent)
	case *SuspendCall:
		v.Schema = leftOut(v.Schema)
	}
}

func leftOut(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}
