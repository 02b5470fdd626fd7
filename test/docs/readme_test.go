// Package docs_test holds the code in the README to what compiles.
package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The Go blocks of the README, one after the other, are a program.
func TestReadmeCompiles(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	rest := string(readme)
	for {
		_, after, ok := strings.Cut(rest, "```go\n")
		if !ok {
			break
		}
		block, tail, ok := strings.Cut(after, "```")
		if !ok {
			t.Fatal("a Go block of the README does not end")
		}
		blocks, rest = append(blocks, block), tail
	}
	if len(blocks) != 3 {
		t.Fatalf("the README has %d Go blocks, this test knows of 3: a tool, a worker, an agent", len(blocks))
	}
	program := `package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

` + blocks[0] + `
func work(ctx context.Context) error {
` + blocks[1] + `
	return err
}

func call(ctx context.Context, nc *nats.Conn) ([]events.ToolResult, error) {
` + blocks[2] + `
	return results, err
}

func main() { _, _, _ = work, call, json.Valid }
`
	// Inside the module, so that its packages are found; the tests ignore folders that begin with a dot.
	dir, err := os.MkdirTemp(".", ".readme-") //nolint:usetesting // it has to be inside the module
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, "./"+dir).CombinedOutput()
	if err != nil {
		t.Errorf("the README's code does not compile: %v\n%s", err, out)
	}
}
