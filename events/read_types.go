package events

import "encoding/json"

func (c *ToolCalls) field(s *scanner, key []byte) bool {
	switch string(key) {
	case "calls":
		s.array(func() {
			c.Calls = append(c.Calls, Call{})
			s.object(&c.Calls[len(c.Calls)-1])
		})
	case "context":
		c.Context = s.context()
	case "deadline":
		c.Deadline = s.optionalTime()
	default:
		return false
	}
	return true
}

func (c *Call) field(s *scanner, key []byte) bool {
	switch string(key) {
	case "id":
		c.ID = CallID(s.text())
	case "name":
		c.Name = ToolName(s.text())
	case "input":
		c.Input = s.raw()
	default:
		return false
	}
	return true
}

func (s *scanner) context() *Context {
	if s.null() {
		return nil
	}
	c := new(Context)
	s.object(c)
	return c
}

func (c *Context) field(s *scanner, key []byte) bool {
	switch string(key) {
	case "user":
		c.User = s.text()
	case "attributes":
		s.members(func(key string) {
			if c.Attributes == nil {
				c.Attributes = make(map[string]string)
			}
			c.Attributes[key] = s.text()
		})
	case "values":
		s.members(func(key string) {
			if c.Values == nil {
				c.Values = make(map[string]json.RawMessage)
			}
			c.Values[key] = s.raw()
		})
	default:
		return false
	}
	return true
}

func (w *ToolWork) field(s *scanner, key []byte) bool {
	switch string(key) {
	case "call":
		s.object(&w.Call)
	case "agent":
		w.Agent = AgentID(s.text())
	case "context":
		w.Context = s.context()
	case "definition":
		w.Definition = s.text()
	case "sessionRevision":
		w.SessionRevision = s.uint()
	case "decision":
		w.Decision = s.text()
	case "argsRepaired":
		w.ArgsRepaired = s.bool()
	case "acceptedAt":
		w.AcceptedAt = s.time()
	case "queueUntil":
		w.QueueUntil = s.time()
	case "deadline":
		w.Deadline = s.optionalTime()
	case "staged":
		w.Staged = s.bool()
	case "tuning":
		w.Tuning = s.raw()
	case "request":
		w.Request = s.text()
	case "digest":
		w.Digest = s.text()
	default:
		return false
	}
	return true
}

func (f *ToolResultStart) field(s *scanner, key []byte) bool {
	switch string(key) {
	case "callId":
		f.CallID = CallID(s.text())
	case "instance":
		f.Instance = s.text()
	case "nonce":
		f.Nonce = s.text()
	case "settle":
		f.Settle = Reason(s.text())
	case "worker":
		f.Worker = s.text()
	case "at":
		f.At = s.time()
	default:
		return false
	}
	return true
}

func (r *ToolResult) field(s *scanner, key []byte) bool {
	switch string(key) {
	case "callId":
		r.CallID = CallID(s.text())
	case "name":
		r.Name = ToolName(s.text())
	case "state":
		r.State = State(s.text())
	case "reason":
		r.Reason = Reason(s.text())
	case "content":
		r.Content = []Content{}
		s.array(func() { r.Content = append(r.Content, s.content()) })
	case "structuredContent":
		r.StructuredContent = s.raw()
	case "isError":
		r.IsError = s.bool()
	case "meta":
		s.object(&r.Meta)
	default:
		return false
	}
	return true
}

// content reads one block; null, where it may be left out, is none.
func (s *scanner) content() Content {
	if s.peek() != '{' && s.err == nil {
		s.unexpected("a content block (an object)")
	}
	return Content(s.raw())
}

func (m *ResultMeta) field(s *scanner, key []byte) bool {
	switch string(key) {
	case "attempt":
		m.Attempt = s.int()
	case "worker":
		m.Worker = s.text()
	case "startedAt":
		m.StartedAt = s.optionalTime()
	case "finishedAt":
		m.FinishedAt = s.time()
	case "definition":
		m.Definition = s.text()
	case "sessionRevision":
		m.SessionRevision = s.uint()
	case "decision":
		m.Decision = s.text()
	case "argsRepaired":
		m.ArgsRepaired = s.bool()
	case "truncated":
		m.Truncated = s.bool()
	default:
		return false
	}
	return true
}

func (d *ToolResultDelta) field(s *scanner, key []byte) bool {
	switch string(key) {
	case "callId":
		d.CallID = CallID(s.text())
	case "seq":
		d.Seq = s.uint()
	case "attempt":
		d.Attempt = s.int()
	case "content":
		if !s.null() {
			d.Content = s.content()
		}
	case "progress":
		d.Progress = s.float()
	case "total":
		d.Total = s.float()
	case "message":
		d.Message = s.text()
	default:
		return false
	}
	return true
}

func (c *CancelCalls) field(s *scanner, key []byte) bool {
	switch string(key) {
	case "calls":
		s.array(func() { c.Calls = append(c.Calls, CallID(s.text())) })
	case "reason":
		c.Reason = s.text()
	default:
		return false
	}
	return true
}

func (a *Announce) field(s *scanner, key []byte) bool {
	switch string(key) {
	case "worker":
		a.Worker = s.text()
	case "instance":
		a.Instance = s.text()
	case "pool":
		a.Pool = s.text()
	case "tool":
		a.Tool = ToolName(s.text())
	case "definition":
		a.Definition = s.text()
	case "startedAt":
		a.StartedAt = s.time()
	case "slots":
		a.Slots = s.int()
	case "gone":
		a.Gone = s.bool()
	case "unhealthy":
		a.Unhealthy = s.text()
	default:
		return false
	}
	return true
}
