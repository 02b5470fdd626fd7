package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// unknown says that a word is none of those allowed, and which may have been meant.
func unknown(what, got string, allowed []string) string {
	text := fmt.Sprintf("unknown %s %q; ", what, got)
	if near := nearest(got, allowed); near != "" {
		text += fmt.Sprintf("did you mean %q? ", near)
	}
	return text + "allowed here: " + strings.Join(allowed, ", ")
}

// nearest is the word that got is most likely a slip of, "" if none is near.
func nearest(got string, words []string) string {
	const farthest = 2
	best, least := "", farthest+1
	if len(got) > 64 {
		return ""
	}
	for _, w := range words {
		d := distance(strings.ToLower(got), strings.ToLower(w))
		if d < least && d < len(w)-1 {
			best, least = w, d
		}
	}
	return best
}

// distance counts the letters to add, drop or change.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

var wordEnd = regexp.MustCompile(`[^a-zA-Z0-9]+|([a-z0-9])([A-Z])`)

// secretive says whether the name of a parameter is one that secrets go by.
func secretive(name string) bool {
	split := wordEnd.ReplaceAllStringFunc(name, func(s string) string {
		if unicode.IsUpper(rune(s[len(s)-1])) {
			return s[:1] + " " + s[1:]
		}
		return " "
	})
	words := []string{
		"key", "apikey", "token", "password", "passwd", "passphrase", "secret", "credential", "credentials", "authorization", "bearer",
	}
	return slices.ContainsFunc(strings.Fields(strings.ToLower(split)), func(w string) bool { return slices.Contains(words, w) })
}
