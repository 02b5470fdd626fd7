package events_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
)

var update = flag.Bool("update", false, "write testdata/wire and the examples in docs/wire.md")

// event returns the event of a vector.
func (v vector) event(tb testing.TB) events.Event {
	tb.Helper()
	e := events.Event{Attributes: v.attrs}
	if v.data != nil {
		var err error
		if e, err = events.New(v.attrs, v.data); err != nil {
			tb.Fatalf("%s: %v", v.name, err)
		}
	}
	e.Extensions = v.ext
	return e
}

// golden is one file of testdata/wire: a message as it is on the wire, and what it means.
type golden struct {
	Doc        string            `json:"doc"`
	Subject    string            `json:"subject"`
	Mode       string            `json:"mode"`       // binary or structured
	Header     map[string]string `json:"header"`     // of the NATS message
	Body       string            `json:"body"`       // of the NATS message, byte for byte
	Attributes map[string]string `json:"attributes"` // CloudEvents attributes, decoded
	Data       json.RawMessage   `json:"data,omitempty"`
}

func (v vector) golden(tb testing.TB, mode string) golden {
	tb.Helper()
	e := v.event(tb)
	g := golden{Doc: v.doc, Subject: v.subject, Mode: mode, Header: map[string]string{}, Attributes: map[string]string{}, Data: e.Data}
	header, body := events.Encode(e)
	for name, values := range header {
		raw := values[0]
		g.Attributes[name[len("ce-"):]] = unpercentAny(tb, raw)
	}
	if mode == "structured" {
		var err error
		if header, body, err = events.EncodeStructured(e); err != nil {
			tb.Fatalf("%s: %v", v.name, err)
		}
	}
	for name, values := range header {
		g.Header[name] = values[0]
	}
	g.Body = string(body)
	return g
}

func unpercentAny(tb testing.TB, s string) string {
	tb.Helper()
	if t, ok := tb.(*testing.T); ok {
		return unpercent(t, s)
	}
	return s
}

func modes() []string { return []string{"binary", "structured"} }

func (v vector) file(mode string) string {
	return filepath.Join("testdata", "wire", v.name+"."+mode+".json")
}

// What we write is what the golden files say, byte for byte.
func TestGoldenEncode(t *testing.T) {
	t.Parallel()
	for _, v := range vectors() {
		for _, mode := range modes() {
			var b bytes.Buffer
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			if err := enc.Encode(v.golden(t, mode)); err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(v.file(mode), b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(v.file(mode))
			if err != nil {
				t.Fatalf("%v (run the tests with -update)", err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("%s %s: %s", v.name, mode, diff)
			}
		}
	}
}

// What the golden files hold reads as the values here.
func TestGoldenDecode(t *testing.T) {
	t.Parallel()
	for _, v := range vectors() {
		for _, mode := range modes() {
			g := readGolden(t, v.file(mode))
			header := map[string][]string{}
			for name, value := range g.Header {
				header[name] = []string{value}
			}
			e, err := events.Decode(header, []byte(g.Body))
			if err != nil {
				t.Errorf("%s %s: %v", v.name, mode, err)
				continue
			}
			if diff := cmp.Diff(v.attrs, e.Attributes); diff != "" {
				t.Errorf("%s %s: %s", v.name, mode, diff)
			}
			if diff := cmp.Diff(v.ext, e.Extensions); diff != "" {
				t.Errorf("%s %s: %s", v.name, mode, diff)
			}
			if v.data == nil {
				if len(e.Data) > 0 {
					t.Errorf("%s %s: data %s, want none", v.name, mode, e.Data)
				}
				continue
			}
			into := reflect.New(reflect.TypeOf(v.data))
			if err := events.Unmarshal(e.Data, into.Interface()); err != nil {
				t.Errorf("%s %s: %v", v.name, mode, err)
			}
			if diff := cmp.Diff(v.data, into.Elem().Interface()); diff != "" {
				t.Errorf("%s %s: %s", v.name, mode, diff)
			}
		}
	}
}

func readGolden(tb testing.TB, file string) golden {
	tb.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	var g golden
	if err := events.Unmarshal(b, &g); err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
	return g
}

// Every type has a vector, and every file belongs to one.
func TestGoldenIsComplete(t *testing.T) {
	t.Parallel()
	var files []string
	types := map[events.Type]bool{}
	for _, v := range vectors() {
		types[v.attrs.Type] = true
		files = append(files, v.file("binary"), v.file("structured"))
	}
	found, err := filepath.Glob(filepath.Join("testdata", "wire", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	if diff := cmp.Diff(files, found); diff != "" {
		t.Error(diff)
	}
	for _, typ := range allTypes(t) {
		if !types[typ] {
			t.Errorf("no vector of %s", typ)
		}
	}
}
