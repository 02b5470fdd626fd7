package lint_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSleepsOnlyInBubbles holds tests to the rule that forbidigo cannot check: a test may sleep in
// virtual time only. A file that sleeps has to be one that opens bubbles.
func TestSleepsOnlyInBubbles(t *testing.T) {
	t.Parallel()
	files := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || len(d.Name()) > 2 && strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files++
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		bubble := slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` }) ||
			len(uses(file, "natstest", "Bubble")) > 0
		for _, pos := range uses(file, "time", "Sleep") {
			if !bubble {
				t.Errorf("%s: time.Sleep in a file without a synctest bubble", fset.Position(pos))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Error("no test files found")
	}
}

// uses returns where the file says pkg.name.
func uses(file *ast.File, pkg, name string) []token.Pos {
	var found []token.Pos
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == name {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == pkg {
				found = append(found, sel.Pos())
			}
		}
		return true
	})
	return found
}
