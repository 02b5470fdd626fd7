package jet

import (
	"slices"
	"strings"

	"github.com/toolwire/toolwire/events"
)

// Role is what a credential is for.
type Role string

// The roles. All but a dispatcher have a name, which is a token of the subjects that they may use.
const (
	RoleAgent      Role = "agent"      // submits turns, and hears what becomes of them
	RoleApprover   Role = "approver"   // answers questions
	RoleOperator   Role = "operator"   // does both, and is one to whom the dispatchers listen
	RoleWorker     Role = "worker"     // runs calls
	RoleDispatcher Role = "dispatcher" // owns the streams and buckets
)

// Roles are all roles, those with the fewest rights first.
func Roles() []Role {
	return []Role{RoleAgent, RoleApprover, RoleOperator, RoleWorker, RoleDispatcher}
}

// Rights are the subjects that a credential may use: all that its role needs, and nothing else.
// docs/operate.md says what they do not keep apart.
type Rights struct {
	Publish   []string `json:"publish"`
	Subscribe []string `json:"subscribe"`
	// Replies: may answer what it was asked, once, wherever the asker listens.
	Replies bool `json:"replies,omitempty"`
}

// inbox is where whoever asks hears the answer.
const inbox = "_INBOX.>"

// Rights are those of a role under a name; pools are for workers. A dispatcher needs no name.
func (n Names) Rights(role Role, name string, pools ...string) Rights {
	switch role {
	case RoleAgent:
		return n.AgentRights(events.AgentID(name))
	case RoleApprover:
		return n.ApproverRights(name)
	case RoleOperator:
		return n.OperatorRights(name)
	case RoleWorker:
		return n.WorkerRights(name, pools...)
	case RoleDispatcher:
		return n.DispatcherRights()
	}
	return Rights{}
}

// RightsTemplate are the rights of a role with the templates of a scoped signing key in place of a name
// and of a pool: the server fills in those of the credential, its name and its tags.
func (n Names) RightsTemplate(role Role) Rights { return n.rights(role, "{{name()}}", "{{tag(pool)}}") }

// rights takes tokens as they are to stand in the subjects.
func (n Names) rights(role Role, name string, pools ...string) Rights {
	switch role {
	case RoleAgent:
		return n.agentRights(name)
	case RoleApprover:
		return n.approverRights(name)
	case RoleOperator:
		return n.operatorRights(name)
	case RoleWorker:
		return n.workerRights(name, pools...)
	case RoleDispatcher:
		return n.DispatcherRights()
	}
	return Rights{}
}

// client is what whoever asks the API needs.
func (n Names) client(name string) Rights {
	return Rights{
		Publish: []string{
			n.Under("api." + name), n.Under("body"), "$JS.API.INFO", "$JS.API.DIRECT.GET." + n.BodiesStream() + ".>",
		},
		Subscribe: []string{inbox, n.Under("changed")},
	}
}

// AgentRights are those of an agent: it submits and cancels under its own name, and asks the API as itself. What
// other agents' calls ask people about it neither hears nor may list; a question of its own it reads by its id.
func (n Names) AgentRights(id events.AgentID) Rights { return n.agentRights(events.Token(id)) }

func (n Names) agentRights(name string) Rights {
	r := n.client(name)
	r.Publish = slices.DeleteFunc(r.Publish, func(s string) bool { return s == n.Under("api."+name) })
	for _, op := range events.Operations() {
		if op != events.OpQuestions && op != events.OpDecisions && op != events.OpJudged {
			r.Publish = append(r.Publish, n.Prefix()+".api."+name+"."+op)
		}
	}
	r.Publish = append(r.Publish, n.Under("call."+name), n.Under("cancel."+name))
	r.Subscribe = append(r.Subscribe, n.Under("live.start"), n.Under("live.result"), n.Under("delta"))
	return r
}

// ApproverRights are those of whoever answers questions, a person or another system: it answers under its
// own name, hears what is asked and decided and what became of its own answers, and asks the API as itself.
// It hears neither the results of calls nor their progress.
func (n Names) ApproverRights(actor string) Rights { return n.approverRights(events.Token(actor)) }

func (n Names) approverRights(name string) Rights {
	r := n.client(name)
	r.Publish = append(r.Publish, n.Under("answer."+name))
	r.Subscribe = append(r.Subscribe, n.Under("live.require"), n.Under("live.decided"), n.Prefix()+".live.judged.*.*.*.*."+name+".*")
	return r
}

// OperatorRights are those of an operator: of an agent and an approver of its name, and to look at the
// streams, which it cannot read or change. That it may act on what others own is for the dispatchers to
// say (their --operators); dead letters and the configuration go through them.
func (n Names) OperatorRights(actor string) Rights { return n.operatorRights(events.Token(actor)) }

func (n Names) operatorRights(name string) Rights {
	r := n.client(name)
	r.Publish = append(r.Publish, n.Under("call."+name), n.Under("cancel."+name), n.Under("answer."+name))
	r.Subscribe = append(r.Subscribe, n.Under("live"), n.Under("delta"))
	for _, s := range append(n.Streams(Config{}), n.Buckets(Config{})...) {
		r.Publish = append(r.Publish, "$JS.API.STREAM.INFO."+s.Name)
	}
	for _, s := range []string{n.CallsStream(), n.InboxStream(), n.TimersStream()} {
		r.Publish = append(r.Publish, "$JS.API.CONSUMER.INFO."+s+".*")
	}
	return r
}

// WorkerRights are those of a worker program: the work of its pool, and of the lanes of its tools.
func (n Names) WorkerRights(name string, pools ...string) Rights {
	tokens := make([]string, len(pools))
	for i, pool := range pools {
		tokens[i] = events.Token(pool)
	}
	return n.workerRights(events.Token(name), tokens...)
}

func (n Names) workerRights(name string, pools ...string) Rights {
	r := Rights{
		Publish: []string{
			n.Under("announce." + name),
			n.Under("start"), n.Under("result"), n.Under("delta"), n.Under("step"), n.Under("suspend"), n.Under("state"), n.Under("body"),
			n.Under("alive"), n.Under("dead.work"), "$JS.API.INFO",
			"$JS.API.STREAM.MSG.GET." + n.JournalStream(), "$JS.API.STREAM.MSG.GET." + n.StateStream(),
			"$JS.API.DIRECT.GET." + n.BodiesStream() + ".>",
		},
		Subscribe: []string{inbox, n.Under("stop"), n.Under("alive"), n.Under("check"), n.Under("changed")},
		Replies:   true,
	}
	for _, pool := range pools {
		of := n.WorkStream() + "." + pool
		r.Publish = append(r.Publish,
			"$JS.API.CONSUMER.MSG.NEXT."+of,
			"$JS.ACK."+of+".>", "$JS.ACK.*.*."+of+".>") // both forms of an acknowledgement
	}
	return r
}

// DispatcherRights are those of a dispatcher: it owns the streams and buckets of the installation.
func (n Names) DispatcherRights() Rights {
	r := Rights{
		Publish:   []string{n.Prefix() + ".>", "$JS.API.>", "$JS.ACK.>"},
		Subscribe: []string{n.Prefix() + ".>", "$SRV.>", inbox},
		Replies:   true,
	}
	for _, bucket := range n.Buckets(Config{}) {
		r.Publish = append(r.Publish, bucket.Subjects...)
	}
	return r
}

// WhoPublishes says for people whose right it is to publish to a subject, such as "the approver or operator
// ann"; "" if every role has it, or none.
func WhoPublishes(subject string) string {
	return whose(subject, func(r Rights) []string { return r.Publish })
}

// WhoSubscribes is WhoPublishes for subscriptions.
func WhoSubscribes(subject string) string {
	return whose(subject, func(r Rights) []string { return r.Subscribe })
}

func whose(subject string, of func(Rights) []string) string {
	first, _, _ := strings.Cut(subject, ".")
	var n Names
	if s, err := events.NewSubjects(first); err == nil {
		n.Subjects = s
	}
	var roles []string
	named := false
	for _, role := range Roles() {
		patterns := of(n.rights(role, "*", "*"))
		if !slices.ContainsFunc(patterns, func(p string) bool { return covers(p, subject) }) {
			continue
		}
		if role == RoleDispatcher {
			if len(roles) == 0 {
				return "a dispatcher"
			}
			continue // it may all of it
		}
		roles = append(roles, string(role))
		// The name is in the subject, where another one would not do.
		named = named || !slices.ContainsFunc(of(n.rights(role, "-", "-")), func(p string) bool { return covers(p, subject) })
	}
	switch {
	case len(roles) == 0 || len(roles) == len(Roles())-1:
		return ""
	case named:
		if t := strings.Split(subject, "."); len(t) > 2 && t[2] != "*" && t[2] != ">" && !strings.HasPrefix(subject, "$") {
			return "the " + orList(roles) + " " + t[2]
		}
	}
	return article(roles[0]) + " " + orList(roles)
}

func orList(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func article(word string) string {
	if strings.ContainsAny(word[:1], "aeiou") {
		return "an"
	}
	return "a"
}

// covers says whether all subjects of what, which may be a pattern, match pattern.
func covers(pattern, what string) bool {
	p, w := strings.Split(pattern, "."), strings.Split(what, ".")
	for i, t := range p {
		switch {
		case t == ">":
			return len(w) > i
		case i >= len(w), w[i] == ">", t != "*" && t != w[i]:
			return false
		}
	}
	return len(p) == len(w)
}
