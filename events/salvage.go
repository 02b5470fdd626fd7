package events

import (
	"bytes"
	"unicode/utf8"
)

// ReadableCalls returns the calls that can still be told from the data of a ToolCalls event
// that [Unmarshal] or [ToolCalls.Check] refuses, so that each can be answered and no agent waits
// for ever. It looks for the ids of the members of the list "calls" (in any case), wherever the
// text breaks; an id written twice is returned once, two ids in one call are two calls. Only
// identifiers that fit a subject are returned, inputs never.
func ReadableCalls(data []byte) []Call {
	r := salvager{data: data, seen: make(map[CallID]bool)}
	r.run()
	return r.calls
}

// taken stands for a key whose value was read.
const taken = " "

// salvager walks text that need not be JSON: brackets are believed, all else is skipped.
type salvager struct {
	data  []byte
	calls []Call
	seen  map[CallID]bool

	depth int    // open brackets
	list  bool   // within the list of calls
	key   string // last key at the level that matters
	ids   []CallID
	name  ToolName
}

func (r *salvager) run() {
	for i := 0; i < len(r.data); i++ {
		switch c := r.data[i]; c {
		case '{':
			r.depth++
			r.key = ""
		case '[':
			r.list = r.list || r.depth == 1 && r.key == "calls"
			r.depth++
		case '}', ']':
			if r.depth == 3 {
				r.flush()
			}
			r.depth--
			r.list = r.list && r.depth >= 2
			r.key = ""
			if r.depth <= 0 {
				return
			}
		case ',':
			if r.matters() {
				r.key = ""
			}
		case '"':
			text, next, whole := r.str(i)
			if !whole {
				r.flush()
				return
			}
			i = next - 1
			if r.matters() {
				r.word(text)
			}
		default:
			if r.matters() && r.key == "id" && ('0' <= c && c <= '9') {
				n := len(r.data[i:]) - len(bytes.TrimLeft(r.data[i:], "0123456789"))
				r.id(CallID(r.data[i : i+n]))
				r.key = taken
				i += n - 1
			}
		}
	}
	r.flush()
}

// matters says whether the walk is among the keys of the event or of one call.
func (r *salvager) matters() bool { return r.depth == 1 || r.list && r.depth == 3 }

// word takes a string: a key, or the value of the key before it.
func (r *salvager) word(text []byte) {
	switch {
	case r.key == "":
		if r.key = string(bytes.ToLower(text)); r.key == "" {
			r.key = taken
		}
		return
	case r.depth == 3 && r.key == "id":
		r.id(CallID(text))
	case r.depth == 3 && r.key == "name" && r.name == "" && CheckID("name", ToolName(text)) == nil:
		r.name = ToolName(text)
	}
	r.key = taken
}

func (r *salvager) id(id CallID) {
	if CheckID("id", id) == nil {
		r.ids = append(r.ids, id)
	}
}

// flush ends a call.
func (r *salvager) flush() {
	for _, id := range r.ids {
		if !r.seen[id] {
			r.seen[id] = true
			r.calls = append(r.calls, Call{ID: id, Name: r.name})
		}
	}
	r.ids, r.name = nil, ""
}

// str returns the string literal at i, decoded as far as it can be, and where it ends.
func (r *salvager) str(i int) (text []byte, next int, whole bool) {
	escaped, sound := false, true
	for j := i + 1; j < len(r.data); j++ {
		switch r.data[j] {
		case '"':
			inner := r.data[i+1 : j]
			if escaped && sound {
				inner, _ = unescape(inner)
			}
			if !sound || !utf8.Valid(inner) {
				inner = nil
			}
			return inner, j + 1, true
		case '\\':
			escaped = true
			sound = sound && escapeLen(r.data[j:]) > 0
			j++
		}
	}
	return nil, len(r.data), false
}
