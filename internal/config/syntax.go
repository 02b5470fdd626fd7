package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxFile is the most bytes of a file. What is stored has a limit of its own; comments do not count there.
const maxFile = 4 << 20

const emptyFile = "there is nothing in the file; to remove the whole configuration, write `groups: []`"

// document is the root of the only document in data.
func document(file string, data []byte) (*yaml.Node, error) {
	one := func(line, column int, text string) error { return &ParseError{[]Problem{{file, line, column, text}}} }
	if len(data) > maxFile {
		return nil, one(1, 1, fmt.Sprintf("the file has %d bytes, at most %d are allowed", len(data), maxFile))
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if at, text := unreadable(data); text != "" {
		line, column := position(data, at)
		return nil, one(line, column, text)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, one(1, 1, emptyFile)
	}
	if err == nil {
		err = dec.Decode(&next)
		if err == nil {
			return nil, one(next.Line, next.Column, "a second document begins here; a configuration is one document")
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, &ParseError{[]Problem{syntaxProblem(file, data, err)}}
	}
	root := doc.Content[0]
	if isNull(root) {
		return nil, one(root.Line, root.Column, emptyFile)
	}
	return root, nil
}

// unreadable finds the first byte that cannot be in a YAML file.
func unreadable(data []byte) (at int, text string) {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return i, fmt.Sprintf("byte %#02x is not UTF-8; save the file as UTF-8", data[i])
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0x7f, r > 0x7f && r < 0xa0 && r != 0x85, r == 0xfeff, r == 0xfffe, r == 0xffff:
			return i, fmt.Sprintf("character %U cannot be in YAML; write it in double quotes as an escape", r)
		}
		i += n
	}
	return 0, ""
}

// position is the line and column of a byte.
func position(data []byte, at int) (line, column int) {
	before := data[:at]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1
}

var (
	yamlLine    = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)
	yamlUnknown = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// syntaxProblem places an error of the YAML parser, which says lines at best, and counts those from 0
// if what it misses is a token.
func syntaxProblem(file string, data []byte, err error) Problem {
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		return Problem{file, 1, 1, err.Error()}
	}
	line, _ := strconv.Atoi(m[1])
	text := m[2]
	if u := yamlUnknown.FindStringSubmatch(text); u != nil {
		line, column := position(data, max(bytes.Index(data, []byte("*"+u[1])), 0))
		return Problem{file, line, column, noAnchors}
	}
	if strings.HasPrefix(text, "did not find expected") {
		line++
	}
	lines := bytes.Split(data, []byte("\n"))
	line = min(max(line, 1), len(lines))
	indent, _, _ := bytes.Cut(lines[line-1], bytes.TrimLeft(lines[line-1], " \t\r"))
	if tab := bytes.IndexByte(indent, '\t'); tab >= 0 {
		return Problem{file, line, tab + 1, "a tab in the indentation; indent with spaces"}
	}
	return Problem{file, line, len(indent) + 1, "not YAML: " + text}
}
