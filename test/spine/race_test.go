package spine_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
)

// Two approvers say opposite things to each of 1,000 questions at once, over two dispatchers: one of them
// wins, the other hears so, the call has one end, and runs once or not at all (T-28, H7).
func TestApproversRace(t *testing.T) {
	t.Parallel()
	p := newPeople(t)
	p.dispatcher()
	alice, bob := p.agent("alice"), p.agent("bob")
	const n = 1000
	results := p.spy("toolwire.live.result.>")
	pending := make([]*agent.Pending, n)
	each(n, func(i int) {
		pending[i] = p.submit(p.c, turn(events.SessionID(fmt.Sprint("s", i%20)), call(events.CallID(fmt.Sprint("c", i)), "deploy", `{"service":"a"}`)))
	})
	asked := p.questions(alice, n)
	var mu sync.Mutex
	approved := make(map[events.CallID]bool)
	each(n, func(i int) {
		q := asked[i]
		said := make([]events.AnswerJudged, 2)
		var wg sync.WaitGroup
		wg.Go(func() { said[0] = p.approve(alice, q) })
		wg.Go(func() { said[1] = p.confirm(bob, q, events.UserConfirmResult{Decision: events.Refuse}) })
		wg.Wait()
		won := 0
		for k, j := range said {
			switch {
			case j.Judgement == events.JudgedAccepted:
				won++
				mu.Lock()
				approved[q.Question.Call.ID] = k == 0
				mu.Unlock()
			case j.Judgement != events.JudgedRefused || j.Code != events.RefusedDecided && j.Code != events.RefusedNotPending:
				t.Errorf("%s: %+v", q.Question.Call.ID, j)
			}
		}
		if won != 1 {
			t.Errorf("%s: %d answers won: %+v", q.Question.Call.ID, won, said)
		}
	})
	ran := 0
	for i := range n {
		r := p.await(pending[i])[0]
		want := events.ReasonDeniedByUser
		if approved[r.CallID] {
			want, ran = events.ReasonOK, ran+1
		}
		if r.Reason != want {
			t.Errorf("%s: %s, want %s", r.CallID, r.Reason, want)
		}
	}
	p.ran.onePer(t, ran)
	results.onePer(t, n)
	t.Logf("%d of %d approved", ran, n)
	p.settlesDown()
}

// each runs f for 0 … n-1, some at once.
func each(n int, f func(i int)) {
	var wg sync.WaitGroup
	gate := make(chan struct{}, 32)
	for i := range n {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			f(i)
		})
	}
	wg.Wait()
}

// questions waits until n questions are open.
func (p *people) questions(c *agent.Client, n int) []events.OpenQuestion {
	p.Helper()
	for range 3000 {
		var all []events.OpenQuestion
		for q, err := range c.Questions(p.Context(), events.QuestionsRequest{}) {
			if errors.Is(err, agent.ErrUnavailable) { // busy with what is to be listed
				break
			}
			if err != nil {
				p.Fatal(err)
			}
			all = append(all, q)
		}
		if len(all) == n {
			return all
		}
		<-time.After(20 * time.Millisecond)
	}
	p.Fatalf("there are not %d questions", n)
	return nil
}

// settlesDown waits until nothing is left of what was parked.
func (p *people) settlesDown() {
	p.Helper()
	for stream, want := range map[string]uint64{"TOOLWIRE_QUESTIONS": 0, "TOOLWIRE_TIMERS": 1, "TOOLWIRE_WORK": 0, "KV_toolwire_turns": 0} {
		var got uint64
		for range 500 {
			if got = p.state(stream).Msgs; got <= want {
				break
			}
			<-time.After(20 * time.Millisecond)
		}
		if got > want {
			p.Errorf("%s holds %d messages, want %d", stream, got, want)
		}
	}
}

// A hundred calls are parked, everything is killed and started again, and each goes on by its answer, once
// (T-36, T-40, H9).
func TestRestartWhileParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t)
		const n = 100
		for i := range n {
			tool, input := events.ToolName("deploy"), `{"service":"a"}`
			if i%2 == 1 {
				tool, input = "HumanApproval", `{"action":"a"}`
			}
			p.submit(p.c, turn(events.SessionID(fmt.Sprint("s", i%7)), call(events.CallID(fmt.Sprint("c", i)), tool, input)))
		}
		p.questions(p.agent("alice"), n)
		for range 2 {
			p.off(time.Hour)
			p.c = p.up(2)
			p.dispatcher()
		}
		results := p.spy("toolwire.live.result.>")
		alice := p.agent("alice")
		for _, q := range p.questions(alice, n) {
			var j events.AnswerJudged
			var err error
			if q.Question.Kind == events.KindConfirm {
				j = p.approve(alice, q)
			} else {
				j, err = alice.Answer(t.Context(), q, events.ExternalExecutionResult{Content: []events.Content{events.Text("yes")}})
			}
			if err != nil || j.Judgement != events.JudgedAccepted {
				t.Fatalf("%s: %+v, %v", q.Question.Call.ID, j, err)
			}
		}
		p.nothingLeft()
		results.onePer(t, n)
		p.ran.onePer(t, n/2)
	})
}
