package events_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/toolwire/toolwire/events"
)

// constants returns the values of the string constants of type typ in a file of the package,
// read from its source: whatever is added there is seen here.
func constants(tb testing.TB, file, typ string) []string {
	tb.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		tb.Fatal(err)
	}
	var values []string
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); ok && id.Name == typ {
			lit, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				return true
			}
			s, err := strconv.Unquote(lit.Value)
			if err != nil {
				tb.Fatal(err)
			}
			values = append(values, s)
		}
		return true
	})
	if len(values) == 0 {
		tb.Fatalf("no constants of type %s in %s", typ, file)
	}
	return values
}

func allTypes(tb testing.TB) (types []events.Type) {
	tb.Helper()
	for _, s := range constants(tb, "types.go", "Type") {
		types = append(types, events.Type(s))
	}
	return types
}
