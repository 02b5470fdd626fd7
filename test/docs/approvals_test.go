package docs_test

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/natstest"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
	"github.com/toolwire/toolwire/workers"
)

// What the Go blocks of docs/approvals.md show stands here, line by line, and runs.
func TestApprovalsDocIsThisFile(t *testing.T) {
	t.Parallel()
	blocksRun(t, "../../docs/approvals.md", "approvals_test.go", 4)
}

// asAlice does something as alice.
func asAlice(nc *nats.Conn, do func(alice *agent.Client) error) error {
	alice, err := agent.New(nc, agent.Config{Agent: "alice"})
	if err != nil {
		return err
	}
	defer alice.Close()
	return do(alice)
}

// answerAll answers whatever is open, as the document does.
func answerAll(ctx context.Context, alice *agent.Client, show func(...any)) error {
	for open, err := range alice.Questions(ctx, events.QuestionsRequest{}) {
		if err != nil {
			return err
		}
		q := open.Question
		show(q.Requester, "wants", q.Call.Name, string(q.Call.Input), q.Why)

		var judged events.AnswerJudged
		if q.Kind == events.KindExternal {
			judged, err = alice.Answer(ctx, open, events.ExternalExecutionResult{Content: []events.Content{events.Text("fine by me")}})
		} else {
			judged, err = alice.Confirm(ctx, open, events.UserConfirmResult{Decision: events.Approve})
		}
		if err != nil {
			return err // stored or not; answering again does no harm
		}
		show(judged.Judgement, judged.Text) // accepted, counted, duplicate or refused
	}
	return nil
}

type Charge struct {
	Amount int `json:"amount"`
}

type Transfer struct {
	To     string `json:"to"`
	Amount int    `json:"amount"`
}

// askingTools are those of the document.
func askingTools() []*toolkit.Tool {
	charge := toolkit.MustDefine("charge", "Charges a card.", func(_ context.Context, in Charge) (string, error) {
		if in.Amount > 1000 {
			return "", toolkit.Pending("call the bank, then answer with the receipt")
		}
		return "charged", nil
	}, nil)
	move := func(_ context.Context, in Transfer) (string, error) { return "moved to " + in.To, nil }
	transfer := toolkit.MustDefine("transfer", "Moves money.", move, &toolkit.Options{
		Check: func(_ context.Context, q events.CheckRequest) (permission.Check, error) {
			var in Transfer
			if err := json.Unmarshal(q.Call.Input, &in); err != nil {
				return permission.Check{}, err
			}
			check := permission.Check{Matches: map[string]bool{}, Suggestions: []string{in.To}}
			for _, content := range q.Contents {
				check.Matches[content] = content == in.To
			}
			if in.Amount > 1000 {
				check.Behavior, check.Message, check.Immune = permission.Ask, "A large amount.", true
			}
			return check, nil
		},
	})
	return []*toolkit.Tool{charge, transfer}
}

// The tools of the document ask, and its app answers.
func TestApprovalsDocRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A timer that the client library pools in one bubble is fatal in the next.
		runtime.GC()
		runtime.GC()
		srv := natstest.Start(t)
		tools := toolkit.New()
		if err := tools.Add(askingTools()...); err != nil {
			t.Fatal(err)
		}
		d, err := dispatcher.New(srv.Conn(), dispatcher.Config{NoHistory: true})
		if err != nil {
			t.Fatal(err)
		}
		w, err := workers.New(srv.Conn(), tools, workers.Config{Name: "shop"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- d.Run(ctx) }()
		go func() { ended <- w.Run(ctx) }()
		c, err := agent.New(srv.Conn(), agent.Config{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) // until all is registered
		for tool, input := range map[events.ToolName]string{"charge": `{"amount":5000}`, "transfer": `{"to":"bob","amount":5000}`} {
			p, err := c.Submit(ctx, agent.Turn{Session: "s", Calls: []events.Call{{Name: tool, Input: json.RawMessage(input)}}})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if err := asAlice(srv.Conn(), func(alice *agent.Client) error { return answerAll(ctx, alice, t.Log) }); err != nil {
				t.Fatal(err)
			}
			r, err := p.Await(ctx)
			if err != nil || !strings.Contains("fine by me, moved to bob", r[0].Text()) || r[0].Reason != events.ReasonOK {
				t.Errorf("%s: %+v, %v", tool, r, err)
			}
		}
		c.Close()
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// blocksRun checks that every Go block of a document stands in a test, line by line.
func blocksRun(t *testing.T, doc, test string, least int) {
	t.Helper()
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(test)
	if err != nil {
		t.Fatal(err)
	}
	bare := func(s string) string {
		var lines []string
		for line := range strings.Lines(s) {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "\n")
	}
	here, rest, n := bare(string(code)), string(text), 0
	for {
		_, after, ok := strings.Cut(rest, "```go\n")
		if !ok {
			break
		}
		var block string
		if block, rest, ok = strings.Cut(after, "```"); !ok {
			t.Fatal("a block does not end")
		}
		if n++; !strings.Contains(here, bare(block)) {
			t.Errorf("this block of %s is not run here:\n%s", doc, block)
		}
	}
	if n < least {
		t.Errorf("only %d blocks", n)
	}
}
