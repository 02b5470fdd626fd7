package events_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/toolwire/toolwire/events"
)

// constants returns the values of the string constants of type typ in a file of the package,
// read from its source: whatever is added there is seen here.
func constants(tb testing.TB, file, typ string) []string {
	tb.Helper()
	return constantsWhere(tb, file, func(spec *ast.ValueSpec) bool {
		id, ok := spec.Type.(*ast.Ident)
		return ok && id.Name == typ
	})
}

// constantsNamed are those whose names begin with a word, such as RefusedExpired.
func constantsNamed(tb testing.TB, file, word string) []string {
	tb.Helper()
	return constantsWhere(tb, file, func(spec *ast.ValueSpec) bool {
		return spec.Type == nil && strings.HasPrefix(spec.Names[0].Name, word)
	})
}

func constantsWhere(tb testing.TB, file string, want func(*ast.ValueSpec) bool) []string {
	tb.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		tb.Fatal(err)
	}
	var values []string
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !want(spec) {
			return true
		}
		lit, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		s, err := strconv.Unquote(lit.Value)
		if err != nil {
			tb.Fatal(err)
		}
		values = append(values, s)
		return true
	})
	if len(values) == 0 {
		tb.Fatalf("no such constants in %s", file)
	}
	return values
}

func allTypes(tb testing.TB) (types []events.Type) {
	tb.Helper()
	for _, file := range []string{"types.go", "questions.go"} {
		for _, s := range constants(tb, file, "Type") {
			types = append(types, events.Type(s))
		}
	}
	return types
}
