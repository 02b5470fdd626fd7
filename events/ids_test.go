package events_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/toolwire/toolwire/events"
)

// Whatever an identifier holds, it is one token, and comes back (T-97).
func TestToken(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"plain-_09azAZ": "plain-_09azAZ",
		"a.b":           "a=2Eb",
		"*":             "=2A",
		">":             "=3E",
		"a b\t\r\n":     "a=20b=09=0D=0A",
		"日本":            "=E6=97=A5=E6=9C=AC",
		"=2E":           "=3D2E",
		"$SYS":          "=24SYS",
		"\x00":          "=00",
		"\u2028":        "=E2=80=A8",
	} {
		got := events.Token(id)
		if got != want {
			t.Errorf("Token(%q) = %q, want %q", id, got, want)
		}
		if back, err := events.Untoken[string](got); err != nil || back != id {
			t.Errorf("Untoken(%q) = %q, %v, want %q", got, back, err, id)
		}
	}
	if got := events.Token(""); got != "=" {
		t.Errorf("the empty identifier became %q", got)
	}
}

func TestUntokenRefuses(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", "=", "=2", "=2e", "=2g", "=41", "a=", "a.b", "*", ">", " ", "é", "=FF", "=C0=80", strings.Repeat("x", 129), strings.Repeat("=2E", 43)} {
		if id, err := events.Untoken[events.SessionID](token); !errors.Is(err, events.ErrToken) {
			t.Errorf("Untoken(%q) = %q, %v, want ErrToken", token, id, err)
		}
	}
}

func TestCheckID(t *testing.T) {
	t.Parallel()
	for id, ok := range map[string]bool{
		"x": true, "": false, "a.b *>": true, "\xff": false, "\x00": true,
		strings.Repeat("x", 128): true, strings.Repeat("x", 129): false, strings.Repeat("x", 300): false,
		strings.Repeat(".", 42): true, strings.Repeat(".", 43): false,
		strings.Repeat("日", 14): true, strings.Repeat("日", 15): false,
	} {
		if err := events.CheckID("session", id); (err == nil) != ok || err != nil && !errors.Is(err, events.ErrToken) {
			t.Errorf("CheckID(%.20q… of %d) = %v, want ok: %v", id, len(id), err, ok)
		}
	}
}

// Odd identifiers never reach a foreign subject: each stays one token (T-97).
func TestSubjectsEscape(t *testing.T) {
	t.Parallel()
	odd := []string{"a.b", "*", ">", "a b", "日本", "\r\n", "=", "$JS", ".", ".."}
	s := events.Subjects{}
	for _, id := range odd {
		k := events.CallKey{Session: events.SessionID(id), Turn: events.TurnID(id), Call: events.CallID(id)}
		for subject, tokens := range map[string]int{
			s.Calls(events.AgentID(id), k.Session, k.Turn): 5, s.Work(id, events.ToolName(id), k): 7,
			s.Start(k): 5, s.Result(k): 5, s.Delta(k): 5, s.Stop(k): 5, s.Cancel(events.AgentID(id), k.Session, k.Turn): 5,
			s.Announce(id, events.ToolName(id)): 4, s.Alive(id): 3, s.Changed(id): 3, s.API(id, "tools"): 4,
			s.Timer(id, id): 4, s.Due(id): 3, s.Body(id, 7): 4, s.Dead(id, "toolwire.x"): 4, s.History(k.Session): 3,
		} {
			if got := strings.Split(subject, "."); len(got) != tokens || strings.ContainsAny(subject, "*> \r\n") {
				t.Errorf("%q makes the subject %q, want %d tokens", id, subject, tokens)
			}
		}
		if pool, tool, key, err := s.ParseWork(s.Work(id, events.ToolName(id), k)); err != nil || pool != id || string(tool) != id || key != k {
			t.Errorf("%q came back as %q, %q, %v, %v", id, pool, tool, key, err)
		}
		if key, err := s.ParseCall("result", s.Live(s.Result(k))); err != nil || key != k {
			t.Errorf("%q came back as %v, %v", id, key, err)
		}
		if a, session, turn, err := s.ParseCalls(s.Calls(events.AgentID(id), k.Session, k.Turn)); err != nil || string(a) != id || session != k.Session || turn != k.Turn {
			t.Errorf("%q came back as %v %v %v, %v", id, a, session, turn, err)
		}
		if _, _, _, err := s.ParseCancel(s.Cancel(events.AgentID(id), k.Session, k.Turn)); err != nil {
			t.Error(err)
		}
	}
}

func TestSubjectsRefuse(t *testing.T) {
	t.Parallel()
	s := events.Subjects{}
	for _, subject := range []string{
		"", "toolwire", "toolwire.call", "toolwire.call.a.b", "toolwire.call.a.b.c.d", "toolwire.call.a..c", "toolwire.call.a.*.c",
		"toolwire.call.a.b.>", "other.call.a.b.c", "toolwire.work.a.b.c", "toolwire.call.a.b.=", "toolwire.call.a.b.=2e",
	} {
		if _, _, _, err := s.ParseCalls(subject); !errors.Is(err, events.ErrToken) {
			t.Errorf("ParseCalls(%q): %v, want ErrToken", subject, err)
		}
		if _, _, _, err := s.ParseWork(subject); !errors.Is(err, events.ErrToken) {
			t.Errorf("ParseWork(%q): %v, want ErrToken", subject, err)
		}
		if _, err := s.ParseCall("start", subject); !errors.Is(err, events.ErrToken) {
			t.Errorf("ParseCall(%q): %v, want ErrToken", subject, err)
		}
	}
	for _, prefix := range []string{"a.b", "*", ">", "a b", "é", "=", strings.Repeat("x", 129)} {
		if _, err := events.NewSubjects(prefix); !errors.Is(err, events.ErrToken) {
			t.Errorf("prefix %q: %v, want ErrToken", prefix, err)
		}
	}
	other, err := events.NewSubjects("dev-1")
	if err != nil || other.Start(events.CallKey{Session: "s", Turn: "t", Call: "c"}) != "dev-1.start.s.t.c" {
		t.Errorf("prefix dev-1: %q, %v", other.Prefix(), err)
	}
}
