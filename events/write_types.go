package events

// The types that carry raw JSON write themselves: encoding/json would compact it.

func (w *writer) toolCalls(c *ToolCalls) {
	size := 128
	for i := range c.Calls {
		size += 64 + len(c.Calls[i].ID) + len(c.Calls[i].Name) + len(c.Calls[i].Input)
	}
	w.b = make([]byte, 0, size)
	w.open('{')
	w.key("calls")
	w.open('[')
	for i := range c.Calls {
		w.comma()
		w.call(&c.Calls[i])
	}
	w.shut(']')
	w.context(c.Context)
	w.optionalTime("deadline", c.Deadline)
	w.shut('}')
}

func (w *writer) call(c *Call) {
	w.open('{')
	w.text("id", string(c.ID))
	w.text("name", string(c.Name))
	w.optionalRaw("input", c.Input)
	w.shut('}')
}

func (w *writer) context(c *Context) {
	if c == nil {
		return
	}
	w.key("context")
	w.open('{')
	w.optional("user", c.User)
	if len(c.Attributes) > 0 {
		w.key("attributes")
		w.open('{')
		for _, k := range sorted(c.Attributes) {
			w.comma()
			w.str("context.attributes", k)
			w.b = append(w.b, ':')
			w.str("context.attributes", c.Attributes[k])
		}
		w.shut('}')
	}
	if len(c.Values) > 0 {
		w.key("values")
		w.open('{')
		for _, k := range sorted(c.Values) {
			w.comma()
			w.str("context.values", k)
			w.b = append(w.b, ':')
			if v := c.Values[k]; len(v) > 0 {
				w.raw("context.values", v)
			} else {
				w.b = append(w.b, "null"...)
			}
		}
		w.shut('}')
	}
	w.shut('}')
}

func (w *writer) toolWork(t *ToolWork) {
	w.b = make([]byte, 0, 384+len(t.Call.ID)+len(t.Call.Name)+len(t.Call.Input)+len(t.Tuning))
	w.open('{')
	w.key("call")
	w.call(&t.Call)
	w.text("agent", string(t.Agent))
	w.context(t.Context)
	w.text("definition", t.Definition)
	if t.SessionRevision != 0 {
		w.uint("sessionRevision", t.SessionRevision)
	}
	w.optional("decision", t.Decision)
	if t.ArgsRepaired {
		w.bool("argsRepaired", true)
	}
	w.time("acceptedAt", t.AcceptedAt)
	w.time("queueUntil", t.QueueUntil)
	w.optionalTime("deadline", t.Deadline)
	if t.Staged {
		w.bool("staged", true)
	}
	w.optionalRaw("tuning", t.Tuning)
	w.optional("request", t.Request)
	w.optional("digest", t.Digest)
	w.shut('}')
}

func (w *writer) toolResult(r *ToolResult) {
	size := 512 + len(r.CallID) + len(r.Name) + len(r.StructuredContent)
	for _, c := range r.Content {
		size += len(c) + 1
	}
	w.b = make([]byte, 0, size)
	w.open('{')
	w.text("callId", string(r.CallID))
	w.text("name", string(r.Name))
	w.text("state", string(r.State))
	w.text("reason", string(r.Reason))
	w.key("content")
	w.open('[')
	for _, c := range r.Content {
		w.comma()
		w.content(c)
	}
	w.shut(']')
	w.optionalRaw("structuredContent", r.StructuredContent)
	w.bool("isError", r.IsError)
	w.key("meta")
	w.meta(&r.Meta)
	w.shut('}')
}

func (w *writer) meta(m *ResultMeta) {
	w.open('{')
	if m.Attempt != 0 {
		w.int("attempt", m.Attempt)
	}
	w.optional("worker", m.Worker)
	w.optionalTime("startedAt", m.StartedAt)
	w.time("finishedAt", m.FinishedAt)
	w.optional("definition", m.Definition)
	if m.SessionRevision != 0 {
		w.uint("sessionRevision", m.SessionRevision)
	}
	w.optional("decision", m.Decision)
	if m.ArgsRepaired {
		w.bool("argsRepaired", true)
	}
	if m.Truncated {
		w.bool("truncated", true)
	}
	w.shut('}')
}

func (w *writer) toolResultDelta(d *ToolResultDelta) {
	w.b = make([]byte, 0, 192+len(d.CallID)+len(d.Content)+len(d.Message))
	w.open('{')
	w.text("callId", string(d.CallID))
	w.uint("seq", d.Seq)
	w.int("attempt", d.Attempt)
	if len(trimJSON(d.Content)) > 0 {
		w.key("content")
		w.content(d.Content)
	}
	w.optionalFloat("progress", d.Progress)
	w.optionalFloat("total", d.Total)
	w.optional("message", d.Message)
	w.shut('}')
}

func (w *writer) toolResultStart(f *ToolResultStart) {
	w.b = make([]byte, 0, 256)
	w.open('{')
	w.text("callId", string(f.CallID))
	w.text("instance", f.Instance)
	w.text("nonce", f.Nonce)
	w.optional("settle", string(f.Settle))
	w.optional("worker", f.Worker)
	w.time("at", f.At)
	w.shut('}')
}

func (w *writer) cancelCalls(c *CancelCalls) {
	w.open('{')
	if len(c.Calls) > 0 {
		w.key("calls")
		w.open('[')
		for _, id := range c.Calls {
			w.comma()
			w.str("calls", string(id))
		}
		w.shut(']')
	}
	w.optional("reason", c.Reason)
	w.shut('}')
}

func (w *writer) announce(a *Announce) {
	w.open('{')
	w.text("worker", a.Worker)
	w.text("instance", a.Instance)
	w.text("pool", a.Pool)
	w.text("tool", string(a.Tool))
	w.text("definition", a.Definition)
	w.time("startedAt", a.StartedAt)
	w.int("slots", a.Slots)
	if a.Gone {
		w.bool("gone", true)
	}
	w.optional("unhealthy", a.Unhealthy)
	w.shut('}')
}
