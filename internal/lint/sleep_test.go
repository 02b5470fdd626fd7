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
// virtual time only. A file that sleeps has to belong to a package whose tests open bubbles, such
// as the file of helpers that they share.
func TestSleepsOnlyInBubbles(t *testing.T) {
	t.Parallel()
	files := 0
	bubbles := map[string]bool{}    // by directory
	sleeps := map[string][]string{} // likewise: where
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
		dir := filepath.Dir(path)
		bubbles[dir] = bubbles[dir] || slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` }) ||
			len(uses(file, "natstest", "Bubble")) > 0
		for _, pos := range uses(file, "time", "Sleep") {
			sleeps[dir] = append(sleeps[dir], fset.Position(pos).String())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, where := range sleeps {
		if !bubbles[dir] {
			t.Errorf("time.Sleep in tests that open no synctest bubble: %s", strings.Join(where, ", "))
		}
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
