package toolkit

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toolwire/toolwire/events"
)

// notices is room for what a cut result says beyond its limit: two sentences and their blocks.
const notices = 256

func checkCut(t *testing.T, r events.ToolResult, limit int) {
	t.Helper()
	truncate(&r, limit)
	if got := size(&r); got > limit+notices {
		t.Errorf("%d bytes at a limit of %d", got, limit)
	}
	for _, c := range r.Content {
		if s, ok := c.Text(); ok && !utf8.ValidString(s) || events.CheckJSON(c) != nil {
			t.Errorf("no text: %q", c)
		}
	}
	if !r.Meta.Truncated || r.StructuredContent != nil {
		t.Error("a cut result does not say so")
	}
}

// T-79: what is cut stays within its limit, whatever JSON makes of the text and however many blocks there are.
func TestTruncate(t *testing.T) {
	t.Parallel()
	many := make([]events.Content, 5000)
	words := make([]events.Content, len(many))
	for i := range many {
		many[i], words[i] = events.Image("image/png", []byte("x")), events.Text("word")
	}
	for name, content := range map[string][]events.Content{
		"control characters": {events.Text(strings.Repeat("\x00", 1000))},
		"quotes":             {events.Text(strings.Repeat(`"\`, 1000))},
		"wide":               {events.Text(strings.Repeat("世", 1000))},
		"many texts":         {events.Text(strings.Repeat("a", 100)), events.Text(strings.Repeat("b", 5000)), events.Text("c"), events.Text("d")},
		"many images":        many,
		"many words":         words,
	} {
		for _, limit := range []int{1, 7, 100, 999, 4000} {
			t.Run(name, func(t *testing.T) { checkCut(t, events.ToolResult{Content: content}, limit) })
		}
	}
	if got := headTail("abcdefghij", 4); got != "ab\n[… 6 bytes left out …]\nij" {
		t.Errorf("got %q", got)
	}
}

func FuzzTruncate(f *testing.F) {
	f.Add("plain", "second", 3)
	f.Add("\x00\x01\"\\é世\xff", "", 12)
	f.Add(strings.Repeat("é", 200), strings.Repeat("\x00", 300), 101)
	f.Fuzz(func(t *testing.T, a, b string, limit int) {
		if limit = min(max(limit, 1), 1<<20); len(a)+len(b) > 0 {
			checkCut(t, events.ToolResult{Content: []events.Content{events.Text(a), events.Image("image/png", []byte(b)), events.Text(b)}}, limit)
		}
	})
}

func FuzzUnwrap(f *testing.F) {
	for _, in := range []string{``, " \n", `null`, `""`, `" "`, `{}`, `"{\"a\":1}"`, `"{"`, `"text"`, `[1]`, `"\ud800"`} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		clean, repaired, err := Unwrap([]byte(in))
		if err != nil {
			return
		}
		if !repaired && string(clean) != in && string(clean) != "{}" {
			t.Errorf("%q became %q and nobody was told", in, clean)
		}
		if again, twice, err := Unwrap(clean); repaired && (err != nil || twice || string(again) != string(clean)) {
			t.Errorf("%q was unwrapped to %q, which is unwrapped to %q", in, clean, again)
		}
	})
}
