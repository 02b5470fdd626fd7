package spine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
)

// plain is an approver with nothing but a NATS client, as docs/wire.md tells.
type plain struct {
	*people
	nc   *nats.Conn
	name string
	n    int
}

// request asks, and reads the answer as a program would that knows none of our types.
func (a *plain) request(m *nats.Msg) map[string]any {
	a.Helper()
	reply, err := a.nc.RequestMsg(m, 10*time.Second)
	if err != nil {
		a.Fatal(err)
	}
	if code := reply.Header.Get("Nats-Service-Error-Code"); code != "" {
		a.Fatalf("%s: %s %s", m.Subject, code, reply.Header.Get("Nats-Service-Error"))
	}
	return a.read(reply)
}

func (a *plain) read(m *nats.Msg) (body map[string]any) {
	a.Helper()
	if err := json.Unmarshal(m.Data, &body); err != nil {
		a.Fatalf("%s: %q: %v", m.Subject, m.Data, err)
	}
	return body
}

// next waits for a message.
func (a *plain) next(sub *nats.Subscription) *nats.Msg {
	a.Helper()
	m, err := sub.NextMsg(time.Minute)
	if err != nil {
		a.Fatal(err)
	}
	return m
}

// answer publishes an answer to a question, twice, as after an acknowledgement that was lost, and returns
// what became of it and under which sequence it was stored.
func (a *plain) answer(question, typ, body string) (judged map[string]any, seq string) {
	a.Helper()
	sub, err := a.nc.SubscribeSync("toolwire.live.judged." + question + "." + a.name + ".*")
	if err != nil {
		a.Fatal(err)
	}
	a.n++
	id := fmt.Sprintf("answer/%d", a.n)
	m := &nats.Msg{Subject: "toolwire.answer." + a.name + "." + question, Data: []byte(body), Header: nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {id}, "ce-source": {"/approvers/" + a.name}, "ce-type": {"io.toolwire.v1." + typ}, "Nats-Msg-Id": {id},
	}}
	seq = fmt.Sprint(a.request(m)["seq"])
	if again := a.request(m); fmt.Sprint(again["seq"]) != seq || again["duplicate"] != true {
		a.Errorf("the same answer again: %v, want seq %s", again, seq)
	}
	got := a.next(sub)
	if !strings.HasSuffix(got.Subject, "."+seq) {
		a.Errorf("judged on %s, want seq %s", got.Subject, seq)
	}
	_ = sub.Unsubscribe()
	return a.read(got), seq
}

// What docs/wire.md tells an approver to do is enough, and answers that nobody could pass on are refused.
func TestApproverWithPlainNATS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t)
		a := &plain{people: p, nc: p.conn(nil), name: "alice"}
		questions, err := a.nc.SubscribeSync("toolwire.live.require.>")
		if err == nil {
			err = a.nc.Flush() // the turn goes out on another connection
		}
		if err != nil {
			t.Fatal(err)
		}
		deepest := strings.Repeat("[", events.MaxDepth-3) + strings.Repeat("]", events.MaxDepth-3)
		pending := p.submit(p.c, turn("s 1", call("c1", "deploy", `{"service":"shop"}`), call("c2", "HumanApproval", `{"action":"x","why":`+deepest[1:len(deepest)-1]+`}`)))
		open := map[string]string{} // by kind: the tokens that name the question
		digest := map[string]any{}
		for range 2 {
			m := a.next(questions)
			token := strings.SplitN(strings.TrimPrefix(m.Subject, "toolwire.live.require."), ".", 3)
			open[token[0]], digest[token[0]] = token[2], a.read(m)["digest"]
		}
		page := a.request(&nats.Msg{Subject: "toolwire.api.alice.questions", Data: []byte(`{}`)})
		if list, ok := page["questions"].([]any); !ok || len(list) != 2 {
			t.Errorf("open: %v", page)
		}
		for _, c := range []struct{ kind, typ, body, judgement, code string }{
			{"confirm", "UserConfirmResult", `{"digest":"%s","decision":"approve","input":[` + deepest + `]}`, "refused", "malformed"},
			{"confirm", "UserConfirmResult", `{"digest":"%s","decision":"approve"}}`, "refused", "malformed"},
			{"confirm", "UserConfirmResult", `{"digest":"not %s","decision":"approve"}`, "refused", "digest_mismatch"},
			{"confirm", "UserConfirmResult", `{"digest":"%s","decision":"approve","input":null,"rules":null}`, "accepted", ""},
			{"external", "ExternalExecutionResult", `{"digest":"%s","content":[5]}`, "refused", "malformed"},
			{"external", "ExternalExecutionResult", `{"digest":"%s","content":[{"type":"text","text":"fine"}]}`, "accepted", ""},
		} {
			body := fmt.Sprintf(c.body, digest[c.kind])
			judged, seq := a.answer(open[c.kind], c.typ, body)
			if code, _ := judged["code"].(string); judged["judgement"] != c.judgement || code != c.code {
				t.Errorf("%.99s: %v", body, judged)
			}
			token := strings.Split(open[c.kind], ".")
			again := a.request(&nats.Msg{Subject: "toolwire.api.alice.judged", Data: fmt.Appendf(nil, `{"session":"s 1","turn":%q,"callId":%q,"requestId":%q,"seq":%s}`, pending.Turn(), token[2], token[3], seq)})
			if fmt.Sprint(again) != fmt.Sprint(judged) {
				t.Errorf("asked again: %v, heard %v", again, judged)
			}
		}
		for i, want := range []string{"deployed shop", "fine"} {
			if got := p.await(pending)[i]; got.Text() != want {
				t.Errorf("result %d: %s %q, want %q", i, got.Reason, got.Text(), want)
			}
		}
		p.nothingLeft()
	})
}
