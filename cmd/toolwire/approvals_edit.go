package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// edit has the arguments changed in the user's editor. nil: they are what they were.
func (a *app) edit(ctx context.Context, input json.RawMessage) (changed json.RawMessage, err error) {
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, input, "", "  "); err != nil {
		return nil, usagef("the arguments are no valid JSON and cannot be edited: %v; give others with --input", err)
	}
	pretty.WriteByte('\n')
	f, err := os.CreateTemp("", "toolwire-*.json")
	if err != nil {
		return nil, fmt.Errorf("file for the editor: %w", err)
	}
	name := f.Name()
	defer func() { _ = os.Remove(name) }()
	_, err = f.Write(pretty.Bytes())
	if end := f.Close(); err == nil {
		err = end
	}
	if err != nil {
		return nil, fmt.Errorf("file for the editor: %w", err)
	}
	if err := a.runEditor(ctx, name); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(name) //nolint:gosec // our own file
	if err != nil {
		return nil, fmt.Errorf("file of the editor: %w", err)
	}
	after, err := compact(b)
	if err != nil {
		return nil, usagef("what you wrote is not JSON: %v; nothing was answered", err)
	}
	if before, err := compact(input); err == nil && bytes.Equal(before, after) {
		return nil, nil //nolint:nilnil // unchanged is no error
	}
	return after, nil
}

func (a *app) runEditor(ctx context.Context, file string) error {
	words := strings.Fields(a.setting("", "VISUAL", "EDITOR"))
	if len(words) == 0 {
		words = []string{"vi"}
	}
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], file)...) //nolint:gosec // the user's own editor
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.in, a.err, a.err
	if err := cmd.Run(); err != nil {
		return usagef("editor %s: %v; nothing was answered. Set EDITOR to one that works, or give the arguments with --input", words[0], err)
	}
	return nil
}
