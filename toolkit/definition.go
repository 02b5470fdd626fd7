package toolkit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// Definition describes a tool: an MCP Tool plus what running it at a distance needs
// (design §8). All booleans default to false, the careful choice.
type Definition struct {
	Name         events.ToolName `json:"name"` // 1–64 of letters, digits, '_' and '-'
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`

	ReadOnly        bool  `json:"readOnly,omitempty"`        // changes nothing; may run again after a crash
	Idempotent      bool  `json:"idempotent,omitempty"`      // running twice does no harm; may run again after a crash
	ConcurrencySafe bool  `json:"concurrencySafe,omitempty"` // may run beside other calls of its turn
	External        bool  `json:"external,omitempty"`        // answered by a person or another system, never run here
	StateInjected   bool  `json:"stateInjected,omitempty"`   // reads and writes documents of the session
	Strict          *bool `json:"strict,omitempty"`          // passed on to the model's API; nil: unset

	Timeout      Duration `json:"timeout,omitzero"`      // of one attempt; 0: [DefaultTimeout]
	QueueTimeout Duration `json:"queueTimeout,omitzero"` // waiting for a worker; 0: [DefaultQueueTimeout]
	Attempts     int      `json:"attempts,omitempty"`    // tries in all, of retryable failures; 0: 1
	Backoff      Backoff  `json:"backoff,omitzero"`      // between tries
	MaxInFlight  int      `json:"maxInFlight,omitempty"` // calls running at once over the whole fleet; 0: no limit
	MaxResult    int      `json:"maxResult,omitempty"`   // bytes of a result; 0: [DefaultMaxResult]
	Oversize     Oversize `json:"oversize,omitempty"`    // what happens to a larger result; "": reference

	Group                string   `json:"group,omitempty"`
	Matcher              string   `json:"matcher,omitempty"`             // built-in permission matcher
	DangerousFiles       []string `json:"dangerousFiles,omitzero"`       // always asked about; nil: the defaults, empty: none, else both
	DangerousDirectories []string `json:"dangerousDirectories,omitzero"` // the same; with an entry `!defaults`, without them
	MCPServer            string   `json:"mcpServer,omitempty"`           // server it comes from
}

// Defaults of a definition's zero fields.
const (
	DefaultTimeout      = 5 * time.Minute
	DefaultQueueTimeout = 10 * time.Minute
	DefaultMaxResult    = 8 << 20
)

// Oversize says what happens to a result larger than its tool's MaxResult.
type Oversize string

// The policies for results over the cap.
const (
	OversizeReference Oversize = "reference" // up to the cap inline or by reference, beyond it an error
	OversizeTruncate  Oversize = "truncate"  // text keeps its head and tail, and says what was cut
	OversizeError     Oversize = "error"     // result_too_large
)

// Backoff spaces the tries of a call: Initial, then Multiplier times as much each time, up to Max.
type Backoff struct {
	Initial    Duration `json:"initial,omitzero"`     // 0: 1 s
	Max        Duration `json:"max,omitzero"`         // 0: 10 s
	Multiplier float64  `json:"multiplier,omitempty"` // 0: 2; at least 1
}

// Delay is the pause after the given failed attempt (1, 2, …).
func (b Backoff) Delay(attempt int) time.Duration {
	d, top, m := time.Duration(b.Initial), time.Duration(b.Max), b.Multiplier
	if d == 0 {
		d = time.Second
	}
	if top == 0 {
		top = 10 * time.Second
	}
	if m < 1 {
		m = 2
	}
	for range attempt - 1 {
		if m == 1 {
			break
		}
		if d = time.Duration(float64(d) * m); d >= top || d <= 0 {
			return top
		}
	}
	return min(d, top)
}

// Duration is a time.Duration that JSON writes as "1m30s".
type Duration time.Duration

// MarshalText writes the duration as Go does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what Go's time.ParseDuration accepts.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// ErrDefinition is returned when a definition cannot be registered; its text says which field and why.
var ErrDefinition = errors.New("toolkit: bad definition")

var validName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Check says whether the definition may be registered: name, schemas, and numbers in range.
func (d Definition) Check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: tool %q: %s", ErrDefinition, d.Name, fmt.Sprintf(format, args...))
	}
	if !validName.MatchString(string(d.Name)) {
		return bad("the name must be 1 to 64 letters, digits, '_' or '-'")
	}
	if d.Group != "" && !validName.MatchString(d.Group) {
		return bad("the group must be 1 to 64 letters, digits, '_' or '-'")
	}
	switch d.Oversize {
	case "", OversizeReference, OversizeTruncate, OversizeError:
	default:
		return bad("oversize %q is none of reference, truncate, error", d.Oversize)
	}
	if d.Timeout < 0 || d.QueueTimeout < 0 || d.Backoff.Initial < 0 || d.Backoff.Max < 0 {
		return bad("timeout, queueTimeout or backoff is negative")
	}
	if d.Attempts < 0 || d.MaxInFlight < 0 || d.MaxResult < 0 {
		return bad("attempts, maxInFlight or maxResult is negative")
	}
	if m := d.Backoff.Multiplier; m != 0 && !(m >= 1) || math.IsInf(m, 0) { // so not NaN either
		return bad("the backoff multiplier %v is not 1 or more", m)
	}
	in, err := compile(d.InputSchema)
	if err != nil {
		return bad("inputSchema: %s", badSchema(err))
	}
	if in.Types != nil && !slices.Contains(in.Types.ToStrings(), "object") {
		return bad("inputSchema: its type must be object, for arguments are one")
	}
	if len(d.OutputSchema) > 0 {
		if _, err := compile(d.OutputSchema); err != nil {
			return bad("outputSchema: %s", badSchema(err))
		}
	}
	return nil
}

// Fenced says whether the tool must run at most once: it is neither read-only nor idempotent.
func (d Definition) Fenced() bool { return !d.ReadOnly && !d.Idempotent }

// Permission is what permission rules see of the tool.
func (d Definition) Permission() permission.Tool {
	return permission.Tool{
		Name: d.Name, InputSchema: d.InputSchema, ReadOnly: d.ReadOnly, Matcher: d.Matcher,
		DangerousFiles: d.DangerousFiles, DangerousDirectories: d.DangerousDirectories, MCPServer: d.MCPServer,
	}
}

// JSON is the definition as it is announced, and what its hash is of.
func (d Definition) JSON() []byte {
	b, err := json.Marshal(d)
	if err != nil { // a schema that is no JSON; Check refuses it
		b = fmt.Appendf(nil, "%#v", d)
	}
	return b
}

// Hash names the definition by its content: [HashOf] its JSON. Any change of any field changes it,
// and so does another order of the keys of a schema: what was judged is told by its bytes.
func (d Definition) Hash() string { return HashOf(d.JSON()) }

// HashOf is 32 hex digits of the SHA-256 of a definition's JSON, byte for byte as it was announced,
// so that a worker in any language can compute it.
func HashOf(definition []byte) string {
	sum := sha256.Sum256(definition)
	return hex.EncodeToString(sum[:16])
}

// AttemptTimeout is Timeout with its default.
func (d Definition) AttemptTimeout() time.Duration { return orDefault(d.Timeout, DefaultTimeout) }

// QueueLimit is QueueTimeout with its default.
func (d Definition) QueueLimit() time.Duration { return orDefault(d.QueueTimeout, DefaultQueueTimeout) }

func orDefault(d Duration, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return time.Duration(d)
}
