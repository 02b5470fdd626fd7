package events_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
)

// decoded is what encoding/json makes of data, numbers as they were written.
func decoded(data []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}

func TestReadJSON(t *testing.T) {
	for _, text := range []string{
		`null`, ` true `, `false`, `""`, `"a\"\\\/\b\f\n\r\té😀"`, `"\ud83d\ude00"`, `"\ud800\ud800x"`,
		`0`, `-0`, `9223372036854775808`, `12345678901234567890.10e-7`, `[]`, `[ ]`, `{}`, `[1,[2,[3]],{"a":[null]}]`,
		`{"a":{"b":{"a":1}},"c\u0064":[true,false,null,"x"],"\ud800":1}`,
	} {
		got, err := events.ReadJSON([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		want, err := decoded([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-encoding/json +ReadJSON)\n%s", text, diff)
		}
	}
}

func TestReadJSONIsStrict(t *testing.T) {
	for _, text := range []string{``, `{`, `{"a":1,"a":2}`, `1 2`, `01`, `nul`, "\"\xff\"", `{"a" 1}`, `[1,]`, `"\x"`, `tru`, `fals`} {
		if v, err := events.ReadJSON([]byte(text)); !errors.Is(err, events.ErrMalformed) {
			t.Errorf("%q reads as %v, %v", text, v, err)
		}
	}
}

func FuzzReadJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5e3,"\ud800",null,true]}`, `"\u0000"`, `{"a":{"a":{"a":{}}}}`, `[`, `-`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := events.ReadJSON(data)
		if strict := events.CheckJSON(data); (err == nil) != (strict == nil) {
			t.Fatalf("ReadJSON: %v, CheckJSON: %v", err, strict)
		}
		if err != nil {
			return
		}
		want, err := decoded(data)
		if err != nil {
			t.Fatal(err)
		}
		// Keys that differ only in surrogates without their other half fall together, in either reader.
		if diff := cmp.Diff(want, got); diff != "" && !bytes.Contains(bytes.ToLower(data), []byte(`\ud`)) {
			t.Fatal(diff)
		}
	})
}
