package toolkit

import (
	"encoding/json"
	"strconv"
	"strings"
)

// maxExponent bounds the exponents of arguments, far beyond any double. The validator computes with
// exact fractions: one 1e999999 takes it 50 ms, so an argument of a megabyte would take hours.
const maxExponent = 1000

// tooFar finds a number whose exponent is out of bounds.
func tooFar(doc any) (json.Number, bool) {
	switch doc := doc.(type) {
	case json.Number:
		at := strings.IndexAny(string(doc), "eE")
		if at < 0 {
			return "", false
		}
		n, err := strconv.Atoi(string(doc[at+1:]))
		return doc, err != nil || n > maxExponent || n < -maxExponent
	case map[string]any:
		for _, v := range doc {
			if n, far := tooFar(v); far {
				return n, true
			}
		}
	case []any:
		for _, v := range doc {
			if n, far := tooFar(v); far {
				return n, true
			}
		}
	}
	return "", false
}
