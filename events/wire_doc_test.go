package events_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
)

// wireDoc is docs/wire.md. What follows a comment <!-- golden: … --> is made here, by -update.
func wireDoc(t *testing.T) (file, text string) {
	t.Helper()
	file = filepath.Join("..", "docs", "wire.md")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return file, string(b)
}

// The examples and tables in docs/wire.md are what the code does.
func TestWireDocExamples(t *testing.T) {
	t.Parallel()
	file, text := wireDoc(t)
	marker := regexp.MustCompile("<!-- golden: ([^>]*) -->\n(?:\n(?:```\\w*\n(?:.*\n)*?```\n|(?:\\|.*\n)+))?")
	found := 0
	want := marker.ReplaceAllStringFunc(text, func(old string) string {
		found++
		what := marker.FindStringSubmatch(old)[1]
		return "<!-- golden: " + what + " -->\n\n" + example(t, what)
	})
	if found < 15 {
		t.Errorf("found only %d examples", found)
	}
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("docs/wire.md is out of date (run the tests with -update): %s", diff)
	}
}

func example(t *testing.T, what string) string {
	t.Helper()
	if what == "reasons" {
		return reasonTable()
	}
	name, ok := strings.CutPrefix(what, "vector ")
	if !ok {
		t.Fatalf("docs/wire.md asks for %q", what)
	}
	for _, v := range vectors() {
		for _, mode := range modes() {
			if v.name+"."+mode == name {
				return "```text\n" + message(t, v.golden(t, mode)) + "```\n"
			}
		}
	}
	t.Fatalf("docs/wire.md asks for the vector %q", name)
	return ""
}

// message shows a message for people: subject, headers, and the body indented.
func message(t *testing.T, g golden) string {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintln(&b, g.Subject)
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range g.Header {
			if !yield(name) {
				return
			}
		}
	}) {
		fmt.Fprintf(&b, "%s: %s\n", name, g.Header[name])
	}
	if g.Body != "" {
		b.WriteByte('\n')
		if err := json.Indent(&b, []byte(g.Body), "", "  "); err != nil {
			t.Fatal(err)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func reasonTable() string {
	var b strings.Builder
	b.WriteString("| reason | state | MCP | HTTP | exit |\n|---|---|---|---|---|\n")
	for _, r := range events.Reasons() {
		o := r.Outcome()
		mcp := "–"
		if o.MCP != 0 {
			mcp = strconv.Itoa(o.MCP)
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %d | %d |\n", r, o.State, mcp, o.HTTP, o.Exit)
	}
	return b.String()
}

// The table of subjects in docs/wire.md has those that the code builds.
func TestWireDocSubjects(t *testing.T) {
	t.Parallel()
	_, text := wireDoc(t)
	s := events.Subjects{}
	key := events.CallKey{Session: "session", Turn: "turn", Call: "call"}
	for _, subject := range []string{
		s.Calls("agent", key.Session, key.Turn), s.Work("pool", "tool", key), s.Start(key), s.Result(key), s.Cancel("agent", key.Session, key.Turn),
		s.Delta(key), s.Stop(key), s.Announce("worker", "tool"), s.Alive("instance"), s.Changed("what"),
		s.Require("kind", "tool", key, "request"), s.Answer("actor", key, "request"), s.Decided(key, "request"), s.Suspend(key), s.Check("pool", "tool"),
		strings.Replace(s.Judged(key, "request", "actor", 0), "0", "seq", 1),
		s.API("actor", "operation"), strings.Replace(s.Body("id", 0), "0", "chunk", 1),
	} {
		tokens := strings.Split(subject, ".")
		row := "| `" + strings.Join(tokens[:2], ".") + ".<" + strings.Join(tokens[2:], ">.<") + ">"
		if !strings.Contains(text, row+"` |") {
			t.Errorf("docs/wire.md has no row %s` |", row)
		}
	}
	for _, id := range []string{"a.b 日"} {
		if want := fmt.Sprintf("So `%s` is `%s`.", id, events.Token(id)); !strings.Contains(text, want) {
			t.Errorf("docs/wire.md does not say: %s", want)
		}
	}
	for _, limit := range []string{
		fmt.Sprintf("more than %d levels", events.MaxDepth), fmt.Sprintf("%d MiB", events.MaxSize>>20), fmt.Sprintf("at most %d bytes once escaped", events.MaxToken),
		fmt.Sprintf("1 to %d of a turn", events.MaxCalls), fmt.Sprintf("at most %d bytes. The same for", events.MaxEventID),
	} {
		if !strings.Contains(text, limit) {
			t.Errorf("docs/wire.md does not say %q", limit)
		}
	}
}

// The command in docs/wire.md sends an event that we read.
func TestWireDocCommand(t *testing.T) {
	t.Parallel()
	_, text := wireDoc(t)
	m := regexp.MustCompile(`(?m)^nats request (\S+) '(.*)'$`).FindStringSubmatch(text)
	if m == nil {
		t.Fatal("docs/wire.md has no nats command")
	}
	e, err := events.Decode(nil, []byte(m[2]))
	if err != nil {
		t.Fatal(err)
	}
	if got := (events.Subjects{}).Calls("local", e.Session, e.Turn); got != m[1] {
		t.Errorf("the subject is %s, want %s", m[1], got)
	}
	var calls events.ToolCalls
	if err := events.Unmarshal(e.Data, &calls); err != nil {
		t.Fatal(err)
	}
	if err := calls.Check(); err != nil {
		t.Error(err)
	}
}

// The tables in docs/wire.md have every word that a question can end with, and an answer be judged by.
func TestWireDocWords(t *testing.T) {
	t.Parallel()
	_, text := wireDoc(t)
	for _, group := range []string{"Outcome", "Judged", "Refused"} {
		for _, word := range constantsNamed(t, "questions.go", group) {
			if !strings.Contains(text, "\n| `"+word+"` |") {
				t.Errorf("docs/wire.md has no row for %s %q", group, word)
			}
		}
	}
	for _, file := range []string{"api.go", "sessions.go", "questions_api.go"} {
		for _, op := range constantsNamed(t, file, "Op") {
			if !regexp.MustCompile("(?m)^\\| [^|]*`" + op + "`").MatchString(text) {
				t.Errorf("docs/wire.md has no row for operation %s", op)
			}
		}
	}
}

// The answer that docs/wire.md gives with the nats command is one to the question beside it.
func TestWireDocAnswer(t *testing.T) {
	t.Parallel()
	_, text := wireDoc(t)
	m := regexp.MustCompile(`(?s)\nnats request (toolwire\.answer\.\S+) \\\n *'([^']*)' \\\n *([^\n]*)\n`).FindStringSubmatch(text)
	if m == nil {
		t.Fatal("docs/wire.md has no command that answers")
	}
	header := map[string][]string{}
	for _, h := range strings.Split(m[3], "-H ")[1:] {
		name, value, _ := strings.Cut(strings.TrimSpace(h), ":")
		header[name] = []string{value}
	}
	e, err := events.Decode(header, []byte(m[2]))
	if err != nil {
		t.Fatal(err)
	}
	var a events.UserConfirmResult
	if err := events.Unmarshal(e.Data, &a); err != nil || e.Type != events.TypeUserConfirmResult {
		t.Fatalf("%+v: %v", e, err)
	}
	q := questionVectors()[0]
	asked, ok := q.data.(events.Question)
	if !ok {
		t.Fatalf("%T", q.data)
	}
	k := events.CallKey{Session: q.attrs.Session, Turn: q.attrs.Turn, Call: q.attrs.Call}
	if want := (events.Subjects{}).Answer("alice", k, asked.RequestID); m[1] != want || a.Digest != asked.Digest {
		t.Errorf("the subject is %s, want %s; the digest is %s, want %s", m[1], want, a.Digest, asked.Digest)
	}
}
