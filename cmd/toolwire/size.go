package main

import (
	"errors"
	"strconv"
	"strings"
)

// byteSize is a flag that takes 500M, 20G, 1T or plain bytes.
type byteSize int64

const units = "KMGT"

// String is the size in bytes, for help texts.
func (s *byteSize) String() string {
	if *s == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Set reads what was given.
func (s *byteSize) Set(v string) error {
	digits := strings.TrimRight(strings.ToUpper(v), "IB")
	shift := 0
	if i := strings.IndexAny(digits, units); i >= 0 && i == len(digits)-1 {
		shift = 10 * (strings.IndexByte(units, digits[i]) + 1)
		digits = digits[:i]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > (1<<62)>>shift {
		return errors.New("give a number of bytes such as 500M, 20G or 1T")
	}
	*s = byteSize(n << shift)
	return nil
}

// Type is the word for the value in help texts.
func (s *byteSize) Type() string { return "bytes" }
