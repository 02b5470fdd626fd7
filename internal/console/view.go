package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/show"
	"github.com/toolwire/toolwire/toolkit"
)

// visible is untrusted text for a person's eyes.
func visible(s string) string { return show.Text(s) }

// row is a question in the list.
type row struct {
	ID        string
	Tool      string
	What      string // the arguments, on one line
	Why       string
	Requester string
	External  bool
	Safety    bool
	Asked     string
	AskedAt   string // for machines
	Left      string
	Urgent    bool
	Missing   int
	Quorum    int
}

// glance is the most bytes of arguments in a row of the list; the page of the question has them whole.
const glance = 160

func newRow(open events.OpenQuestion, now time.Time) row {
	q := &open.Question
	left, urgent := timeLeft(q, now)
	return row{
		ID: q.RequestID, Tool: visible(string(q.Call.Name)), What: short(string(q.Call.Input)), Why: visible(q.Why),
		Requester: visible(string(q.Requester)), External: q.Kind == events.KindExternal, Safety: q.Safety,
		Asked: ago(q.AskedAt, now), AskedAt: q.AskedAt.UTC().Format(time.RFC3339), Left: left, Urgent: urgent, Missing: open.Missing, Quorum: q.Quorum,
	}
}

func short(s string) string {
	if len(s) <= glance {
		return show.Line(s)
	}
	return show.Line(strings.ToValidUTF8(s[:glance], "")) + fmt.Sprintf(" … (%d bytes in all)", len(s))
}

// timeLeft says how long a question may still be answered, and whether that is soon.
func timeLeft(q *events.Question, now time.Time) (text string, urgent bool) {
	if q.ExpiresAt == nil {
		return "no deadline", false
	}
	left := q.ExpiresAt.Sub(now)
	if left <= 0 {
		return "time is over", true
	}
	return span(left) + " left", left < 15*time.Minute
}

// span is a duration in its two largest units.
func span(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d.Hours())/24)
	case d >= time.Hour:
		return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d s", int(d.Seconds()))
}

func ago(t, now time.Time) string { return span(max(0, now.Sub(t))) + " ago" }

// questionPage is everything about a question.
type questionPage struct {
	frame
	ID, Tool, ToolTitle, Description   string
	External, Safety, Suspended        bool
	Why, Rule, Requester               string
	Session, Turn, Call, Reply         string
	Parent, Previous, Definition, Hash string
	Round                              int
	Asked, Expires, Left, OnExpiry     string
	Urgent                             bool
	Fields                             []member
	Exact                              string
	Size                               int
	Long                               bool
	Suggestions                        []choice
	Roles                              string
	Quorum, Missing                    int
	Votes                              []string
	MayAnswer                          bool
	WhyNot                             string
	AskUser                            string // the question to the user, of that tool
	Options                            []string
	Inputs                             []input // made of the schema of the result
	Schema                             string
	Decided                            *decisionRow
	Notice, Error                      string
	Input, Reason, Text, Struct, Ended string // what was typed
	Scope                              string
}

// member is one argument.
type member struct {
	Name  string
	Value string
	Size  int
	Long  bool
}

// choice is a rule that may be kept.
type choice struct {
	Index   int
	Text    string
	Checked bool
}

// foldedAt is how many bytes a value may have before it is folded away; its size is said, and it opens whole.
const foldedAt = 2000

func (c *Console) questionPage(r *http.Request, reply events.QuestionReply) questionPage {
	q, now := &reply.Question, time.Now()
	left, urgent := timeLeft(q, now)
	p := questionPage{
		frame: c.frame(visible(string(q.Call.Name)), r), ID: q.RequestID, Tool: visible(string(q.Call.Name)), ToolTitle: visible(q.Title),
		Description: visible(q.Description), External: q.Kind == events.KindExternal, Safety: q.Safety, Suspended: q.Suspended,
		Why: visible(q.Why), Rule: visible(q.Rule), Requester: visible(string(q.Requester)), Session: visible(string(reply.Session)),
		Turn: visible(string(reply.Turn)), Call: visible(string(q.Call.ID)), Reply: visible(reply.ReplyID), Parent: visible(reply.Parent),
		Previous: q.Previous, Definition: q.Definition, Hash: q.Digest, Round: q.Round,
		Asked: stamp(q.AskedAt) + ", " + ago(q.AskedAt, now), Left: left, Urgent: urgent, OnExpiry: onExpiry(q.OnExpiry),
		Exact: visible(string(q.Call.Input)), Size: len(q.Call.Input), Long: len(q.Call.Input) > foldedAt,
		Roles: visible(strings.Join(q.Roles, ", ")), Quorum: q.Quorum, Missing: reply.Missing, MayAnswer: reply.MayAnswer && reply.Decided == nil,
		WhyNot: visible(reply.WhyNot), Input: editable(q.Call.Input), Scope: events.ScopeSession,
	}
	if q.ExpiresAt != nil {
		p.Expires = stamp(*q.ExpiresAt)
	}
	p.Fields = members(q.Call.Input)
	for i, s := range q.Suggestions {
		p.Suggestions = append(p.Suggestions, choice{Index: i, Text: visible(s.Behavior + " " + s.String())})
	}
	for _, v := range reply.Votes {
		p.Votes = append(p.Votes, visible(v.Actor)+", "+stamp(v.At))
	}
	if p.External {
		p.Inputs, p.Schema = inputsOf(q.ResultSchema), visible(string(q.ResultSchema))
		if q.Call.Name == toolkit.AskUser {
			p.AskUser, p.Options = askUser(q.Call.Input)
		}
	}
	if reply.Decided != nil {
		d := newDecisionRow(events.Decision{Session: reply.Session, Turn: reply.Turn, Decided: *reply.Decided})
		p.Decided = &d
	}
	return p
}

func stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") }

func onExpiry(word string) string {
	switch word {
	case "deny":
		return "then the call is denied"
	case "error":
		return "then the call fails"
	case "escalate":
		return "then others are asked"
	}
	return ""
}

// members are the arguments one by one, as a person reads them: text as text, anything else as JSON. nil:
// they are no object.
func members(raw json.RawMessage) []member {
	keys, values, err := object(raw)
	if err != nil {
		return nil
	}
	out := make([]member, len(keys))
	for i, k := range keys {
		text := string(values[i])
		var s string
		if json.Unmarshal(values[i], &s) == nil && text != "null" {
			text = s
		}
		out[i] = member{Name: visible(k), Value: visible(text), Size: len(values[i]), Long: len(values[i]) > foldedAt}
	}
	return out
}

// object reads the members of a JSON object in their order.
func object(raw json.RawMessage) (keys []string, values []json.RawMessage, err error) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, fmt.Errorf("no object: %w", err)
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		k, _ := t.(string)
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, nil, err
		}
		keys, values = append(keys, k), append(values, v)
	}
	return keys, values, nil
}

// decisionRow is a decided question in the history.
type decisionRow struct {
	ID, Tool, Outcome, Good, By, At, Reason, Requester string
	Changed                                            string // arguments that were approved in place of those asked about
	Answer                                             string
	Rules                                              []string
}

func newDecisionRow(d events.Decision) decisionRow {
	q := &d.Decided.Question
	out := decisionRow{
		ID: q.RequestID, Tool: visible(string(q.Call.Name)), Outcome: d.Decided.Outcome, At: stamp(d.Decided.At), Reason: visible(d.Decided.Reason),
		Requester: visible(string(q.Requester)), By: "policy", Changed: visible(string(d.Decided.Input)),
	}
	if d.Decided.Actor != "" {
		out.By = visible(d.Decided.Actor)
	}
	for _, v := range d.Decided.Votes {
		if v.Actor != d.Decided.Actor {
			out.By = visible(v.Actor) + ", " + out.By
		}
	}
	switch d.Decided.Outcome {
	case events.OutcomeApproved, events.OutcomeAnswered:
		out.Good = "yes"
	case events.OutcomeDenied, events.OutcomeExpired:
		out.Good = "no"
	}
	for _, r := range d.Decided.Rules {
		out.Rules = append(out.Rules, visible(r.Behavior+" "+r.String()))
	}
	if a := d.Decided.Result; a != nil {
		for _, c := range a.Content {
			var block struct{ Text string }
			if json.Unmarshal(c, &block) == nil && block.Text != "" {
				out.Answer += visible(block.Text)
			} else {
				out.Answer += visible(string(c))
			}
		}
		if len(a.StructuredContent) > 0 {
			out.Answer = strings.TrimSpace(out.Answer + "\n" + visible(string(a.StructuredContent)))
		}
	}
	return out
}
