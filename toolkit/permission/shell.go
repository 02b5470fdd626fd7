package permission

import (
	"encoding/json"

	"github.com/toolwire/toolwire/toolkit"
)

func newShellMatcher(c Context, def toolkit.Definition, input json.RawMessage, field string) matcher { return plain{} }
