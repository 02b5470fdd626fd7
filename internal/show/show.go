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
// characters, the Tags block, private use, invalid bytes. Joiners stay where writing needs them: inside a
// word of a script that has them, and inside an emoji; anywhere else they only hide, and are escaped.
func Text(s string) string { return escape(s, "\n\t") }

// Line is [Text] on one line: new lines and tabs are escaped too.
func Line(s string) string { return escape(s, "") }

func escape(s, keep string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	pieces(s, keep, func(text string, _ bool) { b.WriteString(text) })
	return b.String()
}

// Piece is a part of a text: as it was, or an escape in place of what does not show.
type Piece struct {
	Text    string
	Escaped bool
}

// Pieces is [Text] in parts, for whoever can show an escape so that no text passes for one.
func Pieces(s string) []Piece {
	var out []Piece
	pieces(s, "\n\t", func(text string, escaped bool) { out = append(out, Piece{text, escaped}) })
	return out
}

// pieces hands over s piece by piece, in order.
func pieces(s, keep string, add func(text string, escaped bool)) {
	before, begin := rune(-1), 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		broken := r == utf8.RuneError && n == 1
		if !broken && (strings.ContainsRune(keep, r) || visible(r) || shapes(before, r, s[i+n:])) {
			before = r
			i += n
			continue
		}
		if begin < i {
			add(s[begin:i], false)
		}
		switch {
		case broken:
			add(fmt.Sprintf(`\x%02x`, s[i]), true)
		case r == '\n':
			add(`\n`, true)
		case r == '\t':
			add(`\t`, true)
		case r <= 0xffff:
			add(fmt.Sprintf(`\u%04x`, r), true)
		default:
			add(fmt.Sprintf(`\U%08x`, r), true)
		}
		before = r
		i += n
		begin = i
	}
	if begin < len(s) {
		add(s[begin:], false)
	}
}

const (
	zwnj, zwj    = 0x200c, 0x200d
	emojiShape   = 0xfe0f
	skinLightest = 0x1f3fb
	skinDarkest  = 0x1f3ff
)

// shapes says whether r, which shows nothing itself, shapes its neighbours as their writing wants it.
func shapes(before, r rune, rest string) bool {
	after, _ := utf8.DecodeRuneInString(rest)
	switch r {
	case emojiShape:
		return unicode.Is(unicode.So, before)
	case zwnj:
		return joins(before) && joins(after)
	case zwj:
		return joins(before) && joins(after) || emoji(before) && unicode.Is(unicode.So, after)
	}
	return false
}

// joins says whether r is of a script in which joiners change how a word reads.
func joins(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M) && unicode.In(r,
		unicode.Arabic, unicode.Syriac, unicode.Mongolian, unicode.Nko, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi,
		unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala,
		unicode.Khmer, unicode.Myanmar, unicode.Tibetan)
}

// emoji says whether an emoji may end with r.
func emoji(r rune) bool {
	return unicode.Is(unicode.So, r) || r == emojiShape || r >= skinLightest && r <= skinDarkest
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
