package show_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/internal/show"
)

// T-145: what reorders, hides or commands is shown as an escape; what is text stays.
func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain text, 100 %":       "plain text, 100 %",
		"Grüße, 世界 🙂":             "Grüße, 世界 🙂",
		"two\nlines\tand a tab":   "two\nlines\tand a tab",
		"\x1b[31mred\x07":         `\u001b[31mred\u0007`,
		"cr\rlf":                  `cr\u000dlf`,
		"a\u202eb":                `a\u202eb`,
		"a\u061cb":                `a\u061cb`,
		"zero\u200bwidth":         `zero\u200bwidth`,
		"join\u200d\u200c":        `join\u200d\u200c`,
		"lat\u200din":             `lat\u200din`,
		"1\ufe0f":                 `1\ufe0f`,
		"می\u200cخواهم":           "می\u200cخواهم",
		"क्\u200dष":               "क्\u200dष",
		"می\u200c\u200c":          `می\u200c\u200c`,
		"👩🏽\u200d🚀 ❤\ufe0f":       "👩🏽\u200d🚀 ❤\ufe0f",
		"❤\ufe0f\ufe0f\u200dx":    "❤\ufe0f" + `\ufe0f\u200dx`,
		"tag\U000e0041":           `tag\U000e0041`,
		"\xff\xfe":                `\xff\xfe`,
		"nul\x00":                 `nul\u0000`,
		"filler\u3164":            `filler\u3164`,
		"nbsp\u00a0":              `nbsp\u00a0`,
		"next\u0085line":          `next\u0085line`,
		"private\ue000":           `private\ue000`,
		"line\u2028sep":           `line\u2028sep`,
		"e\u0301 with its accent": "e\u0301 with its accent",
	} {
		if got := show.Text(in); got != want {
			t.Errorf("Text(%q): got %q, want %q", in, got, want)
		}
	}
	if got := show.Line("a\nb\tc"); got != `a\nb\tc` {
		t.Errorf("Line: got %q", got)
	}
}

func TestPieces(t *testing.T) {
	t.Parallel()
	want := []show.Piece{{Text: `a\u202e`}, {`\u202e`, true}, {Text: "b\n"}, {`\xff`, true}}
	if diff := cmp.Diff(want, show.Pieces("a\\u202e\u202eb\n\xff")); diff != "" {
		t.Errorf("Pieces (-want +got):\n%s", diff)
	}
}

func FuzzText(f *testing.F) {
	f.Add("\x1b[2J\u202e\xff")
	f.Fuzz(func(t *testing.T, in string) {
		out := show.Line(in)
		if !utf8.ValidString(out) {
			t.Errorf("%q is not valid UTF-8", out)
		}
		if i := strings.IndexFunc(out, func(r rune) bool { return !unicode.IsPrint(r) && !strings.ContainsRune("\u3000\u200c\u200d\ufe0f", r) }); i >= 0 {
			t.Errorf("%q shows an unprintable character at %d", out, i)
		}
	})
}
