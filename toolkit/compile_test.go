package toolkit_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolwire/toolwire/toolkit"
)

// T-88, A-39: references within the schema work, wherever they stand and however deep they lead.
func TestReferencesWithinTheSchema(t *testing.T) {
	t.Parallel()
	const leaf = `{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}`
	for name, schema := range map[string]string{
		"$defs":            `{"properties":{"f":{"$ref":"#/$defs/leaf"}},"$defs":{"leaf":` + leaf + `}}`,
		"definitions":      `{"properties":{"f":{"$ref":"#/definitions/leaf"}},"definitions":{"leaf":` + leaf + `}}`,
		"draft 7":          `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"f":{"$ref":"#/definitions/leaf"}},"definitions":{"leaf":` + leaf + `}}`,
		"draft 4":          `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"f":{"$ref":"#/definitions/leaf"}},"definitions":{"leaf":` + leaf + `}}`,
		"through another":  `{"properties":{"f":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/leaf"},"leaf":` + leaf + `}}`,
		"to a property":    `{"properties":{"e":` + leaf + `,"f":{"$ref":"#/properties/e"}}}`,
		"with an anchor":   `{"properties":{"f":{"$ref":"#leaf"}},"$defs":{"x":{"$anchor":"leaf","allOf":[` + leaf + `]}}}`,
		"with an $id":      `{"$id":"https://example.org/tool","properties":{"f":{"$ref":"/tool#/$defs/leaf"}},"$defs":{"leaf":` + leaf + `}}`,
		"an escaped name":  `{"properties":{"f":{"$ref":"#/$defs/a~1b"}},"$defs":{"a/b":` + leaf + `}}`,
		"beside a keyword": `{"properties":{"f":{"$ref":"#/$defs/leaf","description":"x","minProperties":1}},"$defs":{"leaf":` + leaf + `}}`,
	} {
		def := toolkit.Definition{Name: "probe", InputSchema: json.RawMessage(schema)}
		if err := def.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := string(def.InputSchema); got != schema {
			t.Errorf("%s: the schema became %s", name, got)
		}
		s := schemaOf(t, schema)
		if _, _, err := s.Prepare(json.RawMessage(`{"f":{"q":"x"}}`)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, _, err := s.Prepare(json.RawMessage(`{"f":{}}`)); err == nil || !strings.Contains(err.Error(), "/f: ") {
			t.Errorf("%s: got %v, want a failure of /f", name, err)
		}
	}
	tree := schemaOf(t, `{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["v"]}}}`)
	for in, want := range map[string]string{
		`{"v":1,"kids":[{"v":2,"kids":[{"v":3}]}]}`:             "",
		`{"v":1,"kids":null}`:                                   "",
		`{"v":1,"kids":[{"v":2,"kids":[{"v":3,"kids":null}]}]}`: "",
		`{"v":1,"kids":[{"v":2,"kids":[{"v":"3"}]}]}`:           "/kids/0/kids/0/v: got string, want integer",
		`{"v":1,"kids":[{"v":null}]}`:                           "/kids/0/v: got null, want integer",
	} {
		_, _, err := tree.Prepare(json.RawMessage(in))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", in, err, want)
		}
	}
	for _, schema := range []string{`{"$ref":"#/$defs/none"}`, `{"properties":{"a":{"$ref":"#none"}}}`} {
		if err := (toolkit.Definition{Name: "probe", InputSchema: json.RawMessage(schema)}).Check(); !errors.Is(err, toolkit.ErrDefinition) {
			t.Errorf("%s: got %v, want ErrDefinition", schema, err)
		}
	}
}

// A schema is compiled once for its hash, whoever asks, also at once.
func TestSchemasAreCompiledOnce(t *testing.T) {
	t.Parallel()
	var (
		cache toolkit.Schemas
		group sync.WaitGroup
		got   [16]*toolkit.Schema
	)
	def := toolkit.Definition{Name: "probe", InputSchema: json.RawMessage(person)}
	for i := range got {
		group.Go(func() { got[i], _ = cache.Of(def.Hash(), def) })
	}
	group.Wait()
	for _, s := range got {
		if s == nil || s != got[0] {
			t.Fatalf("got %p and %p", s, got[0])
		}
	}
	for _, bad := range []toolkit.Definition{{Name: "a"}, {Name: "a", InputSchema: json.RawMessage(`{}`), OutputSchema: json.RawMessage(`1`)}} {
		if s, err := cache.Of(bad.Hash(), bad); s != nil || !errors.Is(err, toolkit.ErrDefinition) {
			t.Errorf("got %v, want ErrDefinition", err)
		}
	}
}

// T-89: nothing outside of the schema is read, and nothing of a file gets into an error.
func TestForeignReferencesOfEveryKind(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(secret, []byte(`{"const":"hunter2"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	for _, ref := range []string{
		"file://" + secret, secret, "file:///etc/passwd", "http://169.254.169.254/latest", "https://example.org/schema.json",
		"other.json#/x", "//example.org/x", server.URL + "/schema#/x", "ftp://example.org/x",
	} {
		for _, schema := range []string{
			`{"type":"object","properties":{"a":{"$ref":"` + ref + `"}}}`,
			`{"type":"object","items":{"anyOf":[{"$dynamicRef":"` + ref + `"}]}}`,
			`{"$id":"` + ref + `","properties":{"a":{"$ref":"shadow"}}}`,
			`{"$schema":"` + ref + `"}`,
		} {
			for _, def := range []toolkit.Definition{
				{Name: "probe", InputSchema: json.RawMessage(schema)},
				{Name: "probe", InputSchema: json.RawMessage(`{}`), OutputSchema: json.RawMessage(schema)},
			} {
				err := def.Check()
				if !errors.Is(err, toolkit.ErrDefinition) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "root:") {
					t.Errorf("%s: got %v, want ErrDefinition", schema, err)
				}
			}
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// Patterns are ECMAScript's, lookaheads included; what no engine takes is an error of the definition.
func TestPatterns(t *testing.T) {
	t.Parallel()
	for pattern, c := range map[string]struct{ fits, not string }{
		`^(?!http)`:            {"ftp", "http"},
		`^(?=.*[0-9])\\w{4,}$`: {"abc1", "abcd"},
		`(?<=a)b`:              {"ab", "b"},
		`^(.)\\1$`:             {"aa", "ab"},
		`^\\d+$`:               {"12", "x"},
		`b`:                    {"abc", "ac"}, // not anchored
		`^é$`:                  {"é", "e"},
	} {
		s := schemaOf(t, `{"properties":{"a":{"pattern":"`+pattern+`"}}}`)
		if _, _, err := s.Prepare(json.RawMessage(`{"a":"` + c.fits + `"}`)); err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
		if _, _, err := s.Prepare(json.RawMessage(`{"a":"` + c.not + `"}`)); err == nil || !strings.Contains(err.Error(), "does not match pattern") {
			t.Errorf("%s: got %v", pattern, err)
		}
	}
	for _, schema := range []string{`{"properties":{"a":{"pattern":"("}}}`, `{"patternProperties":{"[":{}}}`} {
		if err := (toolkit.Definition{Name: "probe", InputSchema: json.RawMessage(schema)}).Check(); !errors.Is(err, toolkit.ErrDefinition) {
			t.Errorf("%s: got %v, want ErrDefinition", schema, err)
		}
	}
}
