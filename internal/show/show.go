// Package show renders untrusted text for a person's eyes: what could move the cursor, reorder
// or hide text is shown as an escape. It never touches what a machine runs.
package show

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text escapes everything that a terminal or a reader would not show as what it is: control
// characters but for new lines and tabs, bidirectional controls, zero-width and invisible
// characters (joiners too, so that they stay legible), the Tags block, private use, invalid bytes.
func Text(s string) string { return escape(s, "\n\t") }

// Line is [Text] on one line: new lines and tabs are escaped too.
func Line(s string) string { return escape(s, "") }

func escape(s, keep string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case strings.ContainsRune(keep, r) || visible(r):
			b.WriteString(s[i : i+n])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += n
	}
	return b.String()
}

func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// visible says whether r shows as itself. Marks that combine with their letter do; blank letters
// such as the Hangul fillers, and spaces other than U+0020 and U+3000, do not.
func visible(r rune) bool {
	switch r {
	case 0x115f, 0x1160, 0x3164, 0xffa0, 0x2800, 0x034f, 0x17b4, 0x17b5:
		return false
	case ' ', 0x3000:
		return true
	}
	if r >= 0xfe00 && r <= 0xfe0f || r >= 0xe0100 && r <= 0xe01ef { // variation selectors
		return false
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S)
}
