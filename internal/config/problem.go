package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong in a file, or worth a warning.
type Problem struct {
	File         string
	Line, Column int // from 1; columns are characters
	Text         string
}

// String is the problem as compilers say it: file:line:column: text.
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)
}

// ParseError is returned when a file cannot be used. It says all that is wrong, from top to bottom.
type ParseError struct {
	Problems []Problem
}

// Error has a line for each problem.
func (e *ParseError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func sortProblems(ps []Problem) {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
