package toolkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxExponent bounds the exponents in what is validated and in schemas, far beyond any double. The
	// validator computes with exact fractions: one 1e999999 takes it 50 ms, so that a megabyte of them
	// takes hours, and beyond 1e1000000 it panics.
	maxExponent = 1000
	// maxDigits bounds the length of one number: four million digits take the validator half a minute.
	maxDigits = 4096
)

// checkNumbers refuses a document with a number out of these bounds; its error is path: message.
func checkNumbers(doc any) error {
	if path, err := checkNumber(doc); err != nil {
		slices.Reverse(path)
		return errors.New(shorten(pointer(path) + ": " + err.Error()))
	}
	return nil
}

// checkNumber finds such a number, and the path from it up to doc.
func checkNumber(doc any) (path []string, err error) {
	switch doc := doc.(type) {
	case json.Number:
		return nil, bounded(string(doc))
	case map[string]any:
		for name, v := range doc {
			if path, err := checkNumber(v); err != nil {
				return append(path, name), err
			}
		}
	case []any:
		for i, v := range doc {
			if path, err := checkNumber(v); err != nil {
				return append(path, strconv.Itoa(i)), err
			}
		}
	}
	return nil, nil
}

func bounded(n string) error {
	if len(n) > maxDigits {
		return fmt.Errorf("a number of %d digits, more than %d", len(n), maxDigits)
	}
	at := strings.IndexAny(n, "eE")
	if at < 0 {
		return nil
	}
	if e, err := strconv.Atoi(n[at+1:]); err != nil || e > maxExponent || e < -maxExponent {
		return fmt.Errorf("the exponent of %s is beyond %d", shorten(n), maxExponent)
	}
	return nil
}
