package jet

import (
	"github.com/toolwire/toolwire/events"
)

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

// AgentRights are those of an agent: it submits and cancels under its own name, and asks the API as itself.
// As an operator of the dispatchers (their --operators) the same rights let it act on what others own.
func (n Names) AgentRights(id events.AgentID) Rights {
	name := events.Token(id)
	return Rights{
		Publish: []string{
			n.Under("call." + name), n.Under("cancel." + name), n.Under("api." + name), n.Under("body"),
			"$JS.API.INFO", "$JS.API.DIRECT.GET." + n.BodiesStream() + ".>",
		},
		Subscribe: []string{inbox, n.Under("live"), n.Under("delta"), n.Under("changed")},
	}
}

// WorkerRights are those of a worker program: the work of its pool, and of the lanes of its tools.
func (n Names) WorkerRights(name string, pools ...string) Rights {
	r := Rights{
		Publish: []string{
			n.Under("announce." + events.Token(name)),
			n.Under("start"), n.Under("result"), n.Under("delta"), n.Under("step"), n.Under("state"), n.Under("body"), n.Under("alive"),
			n.Under("dead.work"), "$JS.API.INFO",
			"$JS.API.STREAM.MSG.GET." + n.JournalStream(), "$JS.API.STREAM.MSG.GET." + n.StateStream(),
			"$JS.API.DIRECT.GET." + n.BodiesStream() + ".>",
		},
		Subscribe: []string{inbox, n.Under("stop"), n.Under("alive"), n.Under("changed")},
		Replies:   true,
	}
	for _, pool := range pools {
		of := n.WorkStream() + "." + events.Token(pool)
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
