package dispatcher_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
)

func bossDef() toolkit.Definition {
	return toolkit.Definition{Name: "boss", Description: "Decides.", External: true, ConcurrencySafe: true, InputSchema: json.RawMessage(object)}
}

// approver answers every question that is open, as soon as it sees it, by what it is about.
type approver struct {
	w     *world
	stop  func()
	mu    sync.Mutex
	asked map[events.CallID][]string // requests, by call
}

func (w *world) approver() *approver {
	a := &approver{w: w, asked: make(map[events.CallID][]string)}
	done, stopped := make(chan struct{}), make(chan struct{})
	a.stop = sync.OnceFunc(func() { close(done); <-stopped })
	w.Cleanup(a.stop)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Second):
				a.look()
			}
		}
	}()
	return a
}

func (a *approver) look() {
	for seq := uint64(1); ; seq++ {
		m, err := a.w.bus.Next(a.w.Context(), a.w.bus.QuestionsStream(), seq, a.w.bus.Under("require"))
		if err != nil {
			return
		}
		seq = m.Seq
		_, _, k, request, err := a.w.bus.ParseRequire(m.Subject)
		var q events.Question
		if err := errors.Join(err, m.Err, events.Unmarshal(m.Event.Data, &q)); err != nil {
			a.w.Errorf("question %s: %v", m.Subject, err)
			continue
		}
		a.mu.Lock()
		seen := len(a.asked[k.Call]) > 0 && a.asked[k.Call][len(a.asked[k.Call])-1] == request
		if !seen {
			a.asked[k.Call] = append(a.asked[k.Call], request)
		}
		a.mu.Unlock()
		if !seen {
			a.answer(k, request, &q)
		}
	}
}

// answer approves, denies or gives a result by the id of the call; one that is silent it leaves.
func (a *approver) answer(k events.CallKey, request string, q *events.Question) {
	var data any = events.UserConfirmResult{Digest: q.Digest, Decision: events.Approve}
	typ := events.TypeUserConfirmResult
	switch {
	case k.Call == "silent":
		return
	case strings.HasPrefix(string(k.Call), "denied"):
		data = events.UserConfirmResult{Digest: q.Digest, Decision: events.Refuse, Reason: "no"}
	case q.Kind == events.KindExternal:
		data, typ = events.ExternalExecutionResult{Digest: q.Digest, Content: []events.Content{events.Text("the boss says yes")}}, events.TypeExternalExecutionResult
	}
	e, err := events.New(events.Attributes{ID: "answer/" + request, Source: "/approvers/alice", Type: typ}, data)
	if err != nil {
		a.w.Error(err)
	}
	if _, err := a.w.bus.Store(a.w.Context(), jet.Out{Subject: a.w.bus.Answer("alice", k, request), Event: e}); err != nil {
		a.w.Error(err)
	}
}

// A turn that asks is finished by whoever is there, whatever died at whatever step of it, of the answers
// to it and of what expires: each question is put, each answer counts, nothing runs without one, nothing
// runs twice, nothing is left.
func TestParkedTurnKilledAtEachStep(t *testing.T) {
	for n := 1; ; n++ {
		var at string
		t.Run(fmt.Sprint("step", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { at = killParkedAt(t, n) })
		})
		if at == "" || t.Failed() {
			if n < 40 {
				t.Errorf("only %d steps seen", n)
			}
			return
		}
	}
}

func killParkedAt(t *testing.T, n int) string {
	t.Helper()
	w := newWorld(t)
	first := w.dispatcher()
	x := w.worker([]toolkit.Definition{bookDef(), lookDef(), stepDef()})
	w.registered(first, 3)
	w.apply(toolkit.Config{
		External: []toolkit.Definition{bossDef()},
		Permissions: permission.Context{Mode: permission.Bypass, Rules: []permission.Rule{
			{Tool: "book", Behavior: permission.Ask}, {Tool: "write", Behavior: permission.Ask},
		}},
		Approvals: []toolkit.Approval{{Tools: []string{"book"}, Expires: toolkit.Duration(30 * time.Second)}, {Tools: []string{"boss"}, Expires: toolkit.Duration(10 * time.Minute)}},
	})
	first.stop()
	people := w.approver()
	w.submit("t",
		call("approved", "book", `{"a":1}`), call("free", "look", ""), call("outside", "boss", `{ "b":2 }`), call("denied", "book", `{}`),
		call("silent", "book", `{"c":3}`), call("later", "write", ""), call("denied later", "write", ""))
	dying, died := w.faulty(n)
	wait(40 * time.Second) // longer than a lease, and than the silent one's time
	dying.stop()
	second := w.dispatcher(func(c *dispatcher.Config) { c.Name = "second" })
	w.registered(second, 4)
	for id, reason := range map[string]events.Reason{
		"approved": events.ReasonOK, "free": events.ReasonOK, "outside": events.ReasonOK, "silent": events.ReasonApprovalExpired, "later": events.ReasonOK,
		"denied": events.ReasonDeniedByUser, "denied later": events.ReasonDeniedByUser,
	} {
		w.want(key("t", id), 5*time.Minute, reason)
	}
	for _, id := range []string{"approved", "free", "later"} {
		if got := x.runs(key("t", id)); got != 1 {
			t.Errorf("died at %s: call %s ran %d times", died(), id, got)
		}
	}
	wait(20 * time.Second)
	people.stop()
	if got := w.count(w.bus.JournalStream(), w.bus.Under("result")); got != 7 {
		t.Errorf("died at %s: %d results, want 7", died(), got)
	}
	for what, got := range map[string]int{
		"records": w.records(), "work": w.count(w.bus.WorkStream(), ">"), "inbox": w.count(w.bus.InboxStream(), ">"), "turns": w.unacked(),
		"questions": w.count(w.bus.QuestionsStream(), ">"), "timers": w.count(w.bus.TimersStream(), w.bus.Under("timer.ask")), "dues": w.count(w.bus.TimersStream(), w.bus.Under("due.ask")),
	} {
		if got != 0 {
			t.Errorf("died at %s: %d left of %s", died(), got, what)
		}
	}
	for id, requests := range people.asked {
		if len(requests) != 1 {
			t.Errorf("died at %s: call %s was asked about %d times: %v", died(), id, len(requests), requests)
		}
	}
	return died()
}
