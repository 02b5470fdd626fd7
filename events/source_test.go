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
func constants(t testing.TB, file, typ string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); ok && id.Name == typ {
			s, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, s)
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("no constants of type %s in %s", typ, file)
	}
	return values
}

func allTypes(t testing.TB) (types []events.Type) {
	t.Helper()
	for _, s := range constants(t, "types.go", "Type") {
		types = append(types, events.Type(s))
	}
	return types
}
