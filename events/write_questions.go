package events

// questions writes v if it is a type about questions that carries raw JSON.
func (w *writer) questions(v any) bool {
	switch v := v.(type) {
	case Question:
		w.question(&v)
	case UserConfirmResult:
		w.userConfirmResult(&v)
	case ExternalExecutionResult:
		w.externalExecutionResult(&v)
	case Decided:
		w.decided(&v)
	case SuspendCall:
		w.suspendCall(&v)
	case CheckRequest:
		w.checkRequest(&v)
	case QuestionsReply:
		w.questionsReply(&v)
	case QuestionReply:
		w.questionReply(&v)
	case DecisionsReply:
		w.decisionsReply(&v)
	default:
		return false
	}
	return true
}

func (w *writer) question(q *Question) {
	w.open('{')
	w.text("requestId", q.RequestID)
	w.int("round", q.Round)
	w.optional("previous", q.Previous)
	w.text("kind", string(q.Kind))
	w.key("call")
	w.call(&q.Call)
	w.optional("title", q.Title)
	w.optional("description", q.Description)
	w.text("requester", string(q.Requester))
	w.text("definition", q.Definition)
	w.text("digest", q.Digest)
	w.text("why", q.Why)
	w.optional("rule", q.Rule)
	w.flag("safety", q.Safety)
	w.rules("suggestions", q.Suggestions)
	if len(q.Roles) > 0 {
		w.key("roles")
		w.open('[')
		for _, role := range q.Roles {
			w.comma()
			w.str("roles", role)
		}
		w.shut(']')
	}
	w.int("quorum", q.Quorum)
	w.time("askedAt", q.AskedAt)
	w.optionalTime("expiresAt", q.ExpiresAt)
	w.optional("onExpiry", q.OnExpiry)
	if q.ConfigRevision != 0 {
		w.uint("configRevision", q.ConfigRevision)
	}
	if q.SessionRevision != 0 {
		w.uint("sessionRevision", q.SessionRevision)
	}
	w.optionalRaw("resultSchema", q.ResultSchema)
	w.flag("suspended", q.Suspended)
	w.shut('}')
}

// flag writes a field that is left out when it is false.
func (w *writer) flag(name string, v bool) {
	if v {
		w.bool(name, true)
	}
}

func (w *writer) rules(name string, rules []Rule) {
	if len(rules) == 0 {
		return
	}
	w.key(name)
	w.open('[')
	for _, r := range rules {
		w.comma()
		w.open('{')
		w.text("tool", r.Tool)
		w.optional("content", r.Content)
		w.text("behavior", r.Behavior)
		w.optional("source", r.Source)
		w.shut('}')
	}
	w.shut(']')
}

func (w *writer) userConfirmResult(a *UserConfirmResult) {
	w.open('{')
	w.text("digest", a.Digest)
	w.text("decision", a.Decision)
	w.optional("reason", a.Reason)
	w.optionalRaw("input", a.Input)
	w.rules("rules", a.Rules)
	w.optional("scope", a.Scope)
	w.shut('}')
}

func (w *writer) externalExecutionResult(a *ExternalExecutionResult) {
	w.open('{')
	w.text("digest", a.Digest)
	w.optional("state", string(a.State))
	if len(a.Content) > 0 {
		w.key("content")
		w.open('[')
		for _, c := range a.Content {
			w.comma()
			w.content(c)
		}
		w.shut(']')
	}
	w.optionalRaw("structuredContent", a.StructuredContent)
	w.flag("isError", a.IsError)
	w.shut('}')
}

func (w *writer) decided(d *Decided) {
	w.open('{')
	w.text("outcome", d.Outcome)
	w.time("at", d.At)
	if d.Seq != 0 {
		w.uint("seq", d.Seq)
	}
	w.optional("actor", d.Actor)
	w.votes(d.Votes)
	w.optional("reason", d.Reason)
	w.optionalRaw("input", d.Input)
	w.optional("inputDigest", d.InputDigest)
	w.rules("rules", d.Rules)
	w.optional("scope", d.Scope)
	if d.Result != nil {
		w.key("result")
		w.externalExecutionResult(d.Result)
	}
	w.key("question")
	w.question(&d.Question)
	w.shut('}')
}

func (w *writer) votes(votes []Vote) {
	if len(votes) == 0 {
		return
	}
	w.key("votes")
	w.open('[')
	for _, v := range votes {
		w.comma()
		w.open('{')
		w.text("actor", v.Actor)
		w.time("at", v.At)
		w.uint("seq", v.Seq)
		w.optional("input", v.Input)
		w.shut('}')
	}
	w.shut(']')
}

func (w *writer) suspendCall(s *SuspendCall) {
	w.open('{')
	w.key("call")
	w.call(&s.Call)
	w.text("agent", string(s.Agent))
	w.text("definition", s.Definition)
	w.optional("decision", s.Decision)
	w.optional("message", s.Message)
	w.optionalRaw("schema", s.Schema)
	w.text("nonce", s.Nonce)
	w.shut('}')
}

// openQuestion writes the members of a question with where it belongs.
func (w *writer) openQuestion(q *OpenQuestion) {
	if q.Seq != 0 {
		w.uint("seq", q.Seq)
	}
	w.text("session", string(q.Session))
	w.text("turn", string(q.Turn))
	w.optional("replyId", q.ReplyID)
	w.optional("parent", q.Parent)
	w.key("question")
	w.question(&q.Question)
	w.votes(q.Votes)
	w.int("missing", q.Missing)
	w.bool("mayAnswer", q.MayAnswer)
	w.optional("whyNot", q.WhyNot)
}

func (w *writer) questionsReply(r *QuestionsReply) {
	w.open('{')
	w.key("questions")
	w.open('[')
	for i := range r.Questions {
		w.comma()
		w.open('{')
		w.openQuestion(&r.Questions[i])
		w.shut('}')
	}
	w.shut(']')
	if r.After != 0 {
		w.uint("after", r.After)
	}
	w.flag("more", r.More)
	w.shut('}')
}

func (w *writer) questionReply(r *QuestionReply) {
	w.open('{')
	w.openQuestion(&r.OpenQuestion)
	if r.Decided != nil {
		w.key("decided")
		w.decided(r.Decided)
	}
	w.shut('}')
}

func (w *writer) decisionsReply(r *DecisionsReply) {
	w.open('{')
	w.key("decisions")
	w.open('[')
	for i := range r.Decisions {
		d := &r.Decisions[i]
		w.comma()
		w.open('{')
		w.text("session", string(d.Session))
		w.text("turn", string(d.Turn))
		w.key("decided")
		w.decided(&d.Decided)
		w.shut('}')
	}
	w.shut(']')
	if r.Before != 0 {
		w.uint("before", r.Before)
	}
	w.shut('}')
}

func (w *writer) checkRequest(q *CheckRequest) {
	w.open('{')
	w.text("session", string(q.Session))
	w.text("agent", string(q.Agent))
	w.key("call")
	w.call(&q.Call)
	w.text("definition", q.Definition)
	w.optional("mode", q.Mode)
	if len(q.Contents) > 0 {
		w.key("contents")
		w.open('[')
		for _, c := range q.Contents {
			w.comma()
			w.str("contents", c)
		}
		w.shut(']')
	}
	w.shut('}')
}
