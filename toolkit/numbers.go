package toolkit

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// maxExponent bounds the exponents in what is validated and in schemas, far beyond any double. The
// validator computes with exact fractions: one 1e999999 takes it 50 ms, so that a megabyte of them
// takes hours, and beyond 1e1000000 it panics.
const maxExponent = 1000

// checkNumbers refuses a document with a number whose exponent is out of bounds.
func checkNumbers(doc any) error {
	if n, far := tooFar(doc); far {
		return fmt.Errorf("the exponent of %s is beyond %d", shorten(n.String()), maxExponent)
	}
	return nil
}

// tooFar finds such a number.
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
