//go:build lint

package lint_test

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"
)

const module = "github.com/toolwire/toolwire"

// packages are the packages of the repository that rules name, there already or to come.
var packages = []string{
	"events", "toolkit", "toolkit/toolkittest", "toolkit/permission", "toolkit/mcp", "skills", "workers", "workers/builtin",
	"dispatcher", "agent", "cmd/toolwire", "internal/jet", "internal/auth", "internal/natstest", "internal/embed", "internal/bench", "internal/console", "internal/mcpfront",
}

// stubs stand for the dependencies, so that nothing has to be downloaded.
var stubs = map[string]string{
	"charm.land/huh/v2":                        "v2.0.0",
	"github.com/bmatcuk/doublestar/v4":         "v4.0.0",
	"github.com/cloudevents/sdk-go/v2":         "v2.0.0",
	"github.com/dlclark/regexp2/v2":            "v2.0.0",
	"github.com/google/go-cmp":                 "v0.0.1",
	"github.com/google/jsonschema-go":          "v0.0.1",
	"github.com/mark3labs/mcp-go":              "v1.0.0",
	"github.com/nats-io/jwt/v2":                "v2.0.0",
	"github.com/nats-io/nats-server/v2":        "v2.0.0",
	"github.com/nats-io/nats.go":               "v1.0.0",
	"github.com/nats-io/nkeys":                 "v0.0.1",
	"github.com/rs/zerolog":                    "v1.0.0",
	"github.com/santhosh-tekuri/jsonschema/v6": "v6.0.0",
	"github.com/spf13/cobra":                   "v1.0.0",
	"github.com/spf13/pflag":                   "v1.0.0",
	"github.com/stretchr/testify":              "v1.0.0",
	"go.uber.org/goleak":                       "v1.0.0",
	"mvdan.cc/sh/v3":                           "v3.0.0",
}

// stubPackages are the packages of stubs that lie below the module's root.
var stubPackages = map[string]string{
	"github.com/cloudevents/sdk-go/v2/client":        "package client\n",
	"github.com/cloudevents/sdk-go/v2/event":         "package event\n",
	"github.com/google/go-cmp/cmp":                   "package cmp\n",
	"github.com/google/jsonschema-go/jsonschema":     "package jsonschema\n",
	"github.com/mark3labs/mcp-go/client":             "package client\n",
	"github.com/nats-io/nats-server/v2/server":       "package server\n",
	"github.com/nats-io/nats.go/jetstream":           "package jetstream\n",
	"github.com/rs/zerolog/log":                      "package log\n\nfunc Info() {}\n",
	"github.com/stretchr/testify/require":            "package require\n",
	"github.com/santhosh-tekuri/jsonschema/v6/kind":  "package kind\n",
	"github.com/cloudevents/sdk-go/v2/binding":       "package binding\n",
	"github.com/nats-io/nats-server/v2/internal/ats": "package ats\n",
	"mvdan.cc/sh/v3/syntax":                          "package syntax\n",
	"mvdan.cc/sh/v3/interp":                          "package interp\n",
}

// importPlant is a file in dir that imports one package, and the lists that should report it
// (none: the import is allowed).
type importPlant struct {
	dir, imports string
	test         bool
	lists        []string
}

func (p importPlant) fileName(i int) string {
	if p.test {
		return fmt.Sprintf("plant_%02d_test.go", i)
	}
	return fmt.Sprintf("plant_%02d.go", i)
}

var (
	cloudEvents = "github.com/cloudevents/sdk-go/v2/event"
	jetstream   = "github.com/nats-io/nats.go/jetstream"
	natsJWT     = "github.com/nats-io/jwt/v2"
	natsServer  = "github.com/nats-io/nats-server/v2/server"
	mcpGo       = "github.com/mark3labs/mcp-go/client"
	zerolog     = "github.com/rs/zerolog"
	cobra       = "github.com/spf13/cobra"
	goleak      = "go.uber.org/goleak"
	goCmp       = "github.com/google/go-cmp/cmp"
	schemaGo    = "github.com/google/jsonschema-go/jsonschema"
)

// ours is the leaf below one of our packages: an import of it counts as an import of the package.
func ours(pkg string) string { return path.Join(module, pkg, "leaf") }

func lists(names ...string) []string { return names }

var importPlants = slices.Concat(
	// events: the standard library and the CloudEvents event type.
	[]importPlant{
		{dir: "events", imports: "encoding/json"},
		{dir: "events", imports: cloudEvents},
		{dir: "events", imports: goCmp, test: true},
		{dir: "events", imports: "github.com/cloudevents/sdk-go/v2/client", lists: lists("events")},
		{dir: "events", imports: ours("toolkit"), lists: lists("events")},
		{dir: "events", imports: jetstream, lists: lists("events", "nats")},
		{dir: "events", imports: jetstream, test: true, lists: lists("nats")},
		{dir: "events", imports: zerolog, lists: lists("events", "logging")},
		{dir: "events", imports: "log", lists: lists("logging")},
	},
	// toolkit: the root is strict, its subpackages each have their own rule.
	[]importPlant{
		{dir: "toolkit", imports: "encoding/json"},
		{dir: "toolkit", imports: ours("events")},
		{dir: "toolkit", imports: ours("toolkit/permission")},
		{dir: "toolkit", imports: schemaGo},
		{dir: "toolkit", imports: "github.com/santhosh-tekuri/jsonschema/v6"},
		{dir: "toolkit", imports: "github.com/dlclark/regexp2/v2"},
		{dir: "toolkit", imports: cloudEvents, lists: lists("toolkit")},
		{dir: "toolkit", imports: ours("workers"), lists: lists("toolkit")},
		{dir: "toolkit", imports: jetstream, lists: lists("toolkit", "nats")},
		{dir: "toolkit", imports: mcpGo, lists: lists("toolkit", "mcp")},
		{dir: "toolkit", imports: zerolog, lists: lists("toolkit", "logging")},
		{dir: "toolkit/toolkittest", imports: ours("toolkit")},
		{dir: "toolkit/toolkittest", imports: goCmp, lists: lists("toolkittest", "testsupport")},
		{dir: "toolkit/permission", imports: "encoding/json"},
		{dir: "toolkit/permission", imports: ours("events")},
		{dir: "toolkit/permission", imports: ours("toolkit"), lists: lists("permission")},
		{dir: "toolkit/permission", imports: "github.com/bmatcuk/doublestar/v4"},
		{dir: "toolkit/permission", imports: "mvdan.cc/sh/v3/syntax"},
		{dir: "toolkit/permission", imports: "mvdan.cc/sh/v3/interp", lists: lists("permission")},
		{dir: "toolkit/permission", imports: ours("dispatcher"), lists: lists("permission")},
		{dir: "toolkit/permission", imports: jetstream, lists: lists("permission", "nats")},
		{dir: "toolkit/permission", imports: zerolog, lists: lists("permission", "logging")},
		{dir: "toolkit/mcp", imports: mcpGo},
		{dir: "toolkit/mcp", imports: zerolog},
		{dir: "toolkit/mcp", imports: ours("workers"), lists: lists("toolkitmcp")},
		{dir: "toolkit/mcp", imports: ours("dispatcher"), lists: lists("toolkitmcp")},
		{dir: "toolkit/mcp", imports: ours("agent"), lists: lists("toolkitmcp")},
		{dir: "toolkit/mcp", imports: ours("skills"), lists: lists("toolkitmcp")},
	},
	// The services meet only in events.
	[]importPlant{
		{dir: "skills", imports: ours("toolkit")},
		{dir: "skills", imports: ours("workers"), lists: lists("skills")},
		{dir: "skills", imports: ours("dispatcher"), lists: lists("skills")},
		{dir: "skills", imports: ours("agent"), lists: lists("skills")},
		{dir: "workers", imports: jetstream},
		{dir: "workers", imports: ours("internal/jet")},
		{dir: "workers", imports: ours("dispatcher"), lists: lists("workers")},
		{dir: "workers", imports: ours("dispatcher"), test: true, lists: lists("workers")},
		{dir: "workers", imports: ours("agent"), lists: lists("workers")},
		{dir: "workers", imports: ours("skills"), lists: lists("workers")},
		{dir: "workers/builtin", imports: ours("dispatcher"), lists: lists("workers")},
		{dir: "dispatcher", imports: ours("skills")},
		{dir: "dispatcher", imports: ours("workers"), lists: lists("dispatcher")},
		{dir: "dispatcher", imports: ours("workers"), test: true, lists: lists("dispatcher")},
		{dir: "dispatcher", imports: ours("agent"), lists: lists("dispatcher")},
		{dir: "agent", imports: jetstream},
		{dir: "agent", imports: ours("workers"), lists: lists("agent")},
		{dir: "agent", imports: ours("dispatcher"), lists: lists("agent")},
		{dir: "agent", imports: ours("skills"), lists: lists("agent")},
		{dir: "internal/jet", imports: jetstream},
		{dir: "internal/jet", imports: ours("workers"), lists: lists("jet")},
		{dir: "internal/jet", imports: ours("dispatcher"), lists: lists("jet")},
		{dir: "internal/jet", imports: ours("agent"), lists: lists("jet")},
		{dir: "internal/jet", imports: ours("skills"), lists: lists("jet")},
		{dir: "workers", imports: ours("cmd/toolwire"), lists: lists("cmd")},
	},
	// Libraries with one home.
	[]importPlant{
		{dir: "cmd/toolwire", imports: ours("dispatcher")},
		{dir: "cmd/toolwire", imports: ours("workers")},
		{dir: "cmd/toolwire", imports: cobra},
		{dir: "cmd/toolwire", imports: "charm.land/huh/v2"},
		{dir: "internal/embed", imports: natsServer},
		{dir: "internal/embed", imports: jetstream},
		{dir: "internal/bench", imports: jetstream},
		{dir: "cmd/toolwire", imports: ours("internal/embed")},
		{dir: "workers", imports: ours("internal/embed"), test: true},
		{dir: "workers", imports: ours("internal/embed"), lists: lists("embed")},
		{dir: "cmd/toolwire", imports: natsServer, lists: lists("natsserver")},
		{dir: "internal/auth", imports: natsJWT},
		{dir: "internal/auth", imports: "github.com/nats-io/nkeys"},
		{dir: "internal/auth", imports: jetstream, lists: lists("nats")},
		{dir: "internal/auth", imports: jetstream, test: true},
		{dir: "internal/embed", imports: natsJWT},
		{dir: "cmd/toolwire", imports: natsJWT, lists: lists("keys")},
		{dir: "agent", imports: "github.com/nats-io/nkeys", lists: lists("keys")},
		{dir: "internal/natstest", imports: natsServer},
		{dir: "internal/natstest", imports: goleak},
		{dir: "internal/mcpfront", imports: mcpGo},
		{dir: "workers", imports: natsServer, test: true},
		{dir: "workers", imports: ours("internal/natstest"), test: true},
		{dir: "workers", imports: goleak, test: true},
		{dir: "internal/console", imports: jetstream, lists: lists("nats")},
		{dir: "internal/console", imports: ours("workers"), lists: lists("console")},
		{dir: "internal/console", imports: ours("dispatcher"), lists: lists("console")},
		{dir: "internal/console", imports: ours("internal/jet"), lists: lists("console")},
		{dir: "internal/console", imports: ours("dispatcher"), test: true},
		{dir: "internal/console", imports: ours("agent")},
		{dir: "skills", imports: jetstream, lists: lists("nats")},
		{dir: "workers", imports: natsServer, lists: lists("natsserver")},
		{dir: "internal/jet", imports: natsServer, lists: lists("natsserver")},
		{dir: "workers", imports: ours("internal/natstest"), lists: lists("testsupport")},
		{dir: "cmd/toolwire", imports: ours("internal/natstest"), lists: lists("testsupport")},
		{dir: "cmd/toolwire", imports: ours("toolkit/toolkittest"), lists: lists("testsupport")},
		{dir: "dispatcher", imports: goleak, lists: lists("testsupport")},
		{dir: "agent", imports: goCmp, lists: lists("testsupport")},
		{dir: "workers", imports: mcpGo, lists: lists("mcp")},
		{dir: "cmd/toolwire", imports: mcpGo, lists: lists("mcp")},
		{dir: "agent", imports: cobra, lists: lists("cli")},
		{dir: "agent", imports: "github.com/spf13/pflag", lists: lists("cli")},
		{dir: "agent", imports: "charm.land/huh/v2", lists: lists("cli")},
		{dir: "agent", imports: "github.com/stretchr/testify/require", test: true, lists: lists("assertions")},
	},
)

// callPlant is a file in workers with one import and a function of the given parameters that makes
// the call.
type callPlant struct {
	imports, params, call string
	file                  string // name of the file, where that matters
	test, allowed         bool
}

var callPlants = []callPlant{
	{imports: "fmt", call: "fmt.Println()"},
	{imports: "fmt", call: `fmt.Printf("")`},
	{call: "println()"},
	{imports: "time", call: "time.Sleep(1)"},
	{imports: "time", call: "time.Sleep(1)", test: true, allowed: true}, // TestSleepsOnlyInBubbles looks at these.
	{call: `panic("")`},
	{imports: "os", call: "os.Exit(1)"},
	{imports: "os", call: "os.Exit(1)", file: "main.go", allowed: true},
	{imports: "testing", params: "t *testing.T", call: "t.Skip()", test: true},
	{imports: "testing", params: "tb testing.TB", call: "tb.SkipNow()", test: true},
	{imports: "testing", params: "x *testing.T", call: `x.Skipf("")`, test: true},
	{imports: "github.com/rs/zerolog/log", call: "log.Info()"},
}

var (
	depguardText = regexp.MustCompile(`^import '([^']+)' is not allowed from list '([^']+)'`)
	sorted       = gocmp.Transformer("sorted", func(in []finding) []finding {
		out := slices.Clone(in)
		slices.SortFunc(out, func(a, b finding) int {
			return cmp.Or(strings.Compare(a.File, b.File), strings.Compare(a.List, b.List))
		})
		return out
	})
)

// packageName is the name of the package in dir.
func packageName(dir string) string {
	if dir == "cmd/toolwire" {
		return "main"
	}
	return path.Base(dir)
}
