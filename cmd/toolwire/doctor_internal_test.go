package main

import (
	"fmt"
	"testing"
)

// A fleet of many tools is told in one line.
func TestSome(t *testing.T) {
	t.Parallel()
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprint("t", i)
	}
	for n, want := range map[int]string{
		0: "", 2: "t0, t1", 10: "t0, t1, t2, t3, t4, t5, t6, t7, t8, t9",
		10_000: "t0, t1, t2, t3, t4, t5, t6, t7, t8, t9 and 9990 more",
	} {
		if got := some(names[:n]); got != want {
			t.Errorf("%d: got %.80q, want %q", n, got, want)
		}
	}
}
