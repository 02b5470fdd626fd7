package toolkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/toolkit"
)

type place struct {
	Lat float64 `json:"lat" minimum:"-90" maximum:"90"`
	Lon float64 `json:"lon"`
}

type (
	Paging struct {
		Page int `json:"page" default:"1" minimum:"1"`
		Size int `json:"size,omitempty"`
	}
	hidden struct {
		Token string `json:"token,omitempty" description:"promoted"`
	}
)

func define1[In any](t *testing.T) string {
	t.Helper()
	tool, err := toolkit.Define("probe", "d", func(context.Context, In) (string, error) { return "", nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(tool.Definition().InputSchema)
}

// The schema of each kind of field.
func TestSchemaOfFields(t *testing.T) {
	t.Parallel()
	const points = `{"type":"object","properties":{"lat":{"type":"number","minimum":-90,"maximum":90},"lon":{"type":"number"}},"required":["lat","lon"],"additionalProperties":false}`
	for _, c := range []struct{ got, props, required string }{
		{define1[struct {
			S string  `json:"s"`
			B bool    `json:"b"`
			I int     `json:"i"`
			N int64   `json:"n"`
			F float64 `json:"f"`
		}](t), `{"s":{"type":"string"},"b":{"type":"boolean"},"i":{"type":"integer"},"n":{"type":"integer"},"f":{"type":"number"}}`, `["s","b","i","n","f"]`},
		{define1[struct {
			Plain  string
			Named  string `json:"named"`
			Skip   string `json:"-"`
			hidden string
		}](t), `{"Plain":{"type":"string"},"named":{"type":"string"}}`, `["Plain","named"]`},
		{define1[struct {
			P *string  `json:"p"`
			Q **int    `json:"q"`
			R *place   `json:"r"`
			S *[]place `json:"s"`
		}](t), `{"p":{"type":"string"},"q":{"type":"integer"},"r":` + points + `,"s":{"type":"array","items":` + points + `}}`, ``},
		{define1[struct {
			L []place            `json:"l"`
			M map[string]place   `json:"m"`
			N map[string][]place `json:"n,omitempty"`
			D [][]string         `json:"d,omitzero"`
		}](t), `{"l":{"type":"array","items":` + points + `},"m":{"type":"object","additionalProperties":` + points + `},` +
			`"n":{"type":"object","additionalProperties":{"type":"array","items":` + points + `}},"d":{"type":"array","items":{"type":"array","items":{"type":"string"}}}}`, `["l","m"]`},
		{define1[struct {
			When time.Time   `json:"when" description:"at"`
			Then *time.Time  `json:"then"`
			All  []time.Time `json:"all,omitempty"`
			Num  json.Number `json:"num" minimum:"0"`
		}](t), `{"when":{"type":"string","format":"date-time","description":"at"},"then":{"type":"string","format":"date-time"},` +
			`"all":{"type":"array","items":{"type":"string","format":"date-time"}},"num":{"type":"number","minimum":0}}`, `["when","num"]`},
		{define1[struct {
			hidden
			*Paging
			Own string `json:"own"`
		}](t), `{"token":{"type":"string","description":"promoted"},"page":{"type":"integer","minimum":1,"default":1},"size":{"type":"integer"},"own":{"type":"string"}}`, `["own"]`},
	} {
		want := `{"type":"object","additionalProperties":false,"properties":` + c.props
		if c.required != "" {
			want += `,"required":` + c.required
		}
		if d := cmp.Diff(exact(t, want+"}"), exact(t, c.got)); d != "" {
			t.Errorf("schema (-want +got):\n%s", d)
		}
	}
	if got := define1[none](t); got != `{"type":"object","properties":{},"additionalProperties":false}` {
		t.Errorf("no fields: got %s", got) // properties are there, for APIs that insist on them
	}
	if got := define1[*place](t); got != define1[place](t) {
		t.Errorf("a pointer: got %s", got)
	}
	if got := exact(t, define1[map[string]any](t)).(map[string]any)["type"]; got != "object" { //nolint:errcheck // it is an object
		t.Errorf("a map: got type %v", got)
	}
}

// What each tag makes of a field, and that a list's limits are of its elements.
func TestSchemaTags(t *testing.T) {
	t.Parallel()
	got := define1[struct {
		Text   string    `json:"text" description:"a \"word\", <b>" minLength:"1" maxLength:"9" pattern:"^(?!x)\\w+$" format:"hostname"`
		Choice string    `json:"choice" enum:"a,b c,1" default:"b c"`
		Empty  string    `json:"empty" default:""`
		Level  int       `json:"level" enum:"1,2,9007199254740993" default:"2"`
		Share  *float64  `json:"share" minimum:"0" maximum:"1e-1" default:"0.05"`
		On     bool      `json:"on" default:"true"`
		Mails  []string  `json:"mails" format:"email" maxLength:"50" description:"all of them"`
		IDs    []int     `json:"ids" enum:"1,2" minimum:"1" default:"[1,2]"`
		Place  place     `json:"place" description:"where" default:"{\"lat\":1,\"lon\":2}"`
		Opt    string    `json:"opt" required:"false"`
		Must   *place    `json:"must" required:"true"`
		Since  time.Time `json:"since" default:"2026-01-02T03:04:05Z"`
		Both   string    `json:"both,omitempty" default:"x" required:"true"`
	}](t)
	want := `{"type":"object","additionalProperties":false,"required":["text","mails","must","both"],"properties":{
		"text":{"type":"string","description":"a \"word\", <b>","minLength":1,"maxLength":9,"pattern":"^(?!x)\\w+$","format":"hostname"},
		"choice":{"type":"string","enum":["a","b c","1"],"default":"b c"},"empty":{"type":"string","default":""},
		"level":{"type":"integer","enum":[1,2,9007199254740993],"default":2},"share":{"type":"number","minimum":0,"maximum":0.1,"default":0.05},
		"on":{"type":"boolean","default":true},"mails":{"type":"array","description":"all of them","items":{"type":"string","format":"email","maxLength":50}},
		"ids":{"type":"array","items":{"type":"integer","enum":[1,2],"minimum":1},"default":[1,2]},
		"place":{"type":"object","description":"where","default":{"lat":1,"lon":2},"additionalProperties":false,"required":["lat","lon"],
			"properties":{"lat":{"type":"number","minimum":-90,"maximum":90},"lon":{"type":"number"}}},
		"opt":{"type":"string"},"must":{"type":"object","additionalProperties":false,"required":["lat","lon"],
			"properties":{"lat":{"type":"number","minimum":-90,"maximum":90},"lon":{"type":"number"}}},
		"since":{"type":"string","format":"date-time","default":"2026-01-02T03:04:05Z"},"both":{"type":"string","default":"x"}}}`
	if d := cmp.Diff(exact(t, want), exact(t, got)); d != "" {
		t.Errorf("schema (-want +got):\n%s", d)
	}
}

// A tag that cannot be read is an error that names field and tag, at any depth.
func TestBadTags(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"field A: tag enum": defineErr[struct {
			A int `enum:"1,x"`
		}](),
		"field B: tag enum": defineErr[struct {
			B []int `enum:"1,"`
		}](),
		"field C: tag minimum": defineErr[struct {
			C int `minimum:"low"`
		}](),
		"field D: tag maximum": defineErr[struct {
			D float64 `maximum:""`
		}](),
		"field E: tag minLength": defineErr[struct {
			E string `minLength:"-1"`
		}](),
		"field F: tag maxLength": defineErr[struct {
			F string `maxLength:"1.5"`
		}](),
		"field G: tag pattern": defineErr[struct {
			G string `pattern:"("`
		}](),
		"field H: tag default": defineErr[struct {
			H int `default:"many"`
		}](),
		"field I: tag default": defineErr[struct {
			I bool `default:"yes"`
		}](),
		"field J: tag default": defineErr[struct {
			J []string `default:"a"`
		}](),
		"field K: tag default": defineErr[struct {
			K *int `default:"1.5"`
		}](),
		"field L: tag default": defineErr[struct {
			L int8 `default:"300"`
		}](),
		"field M: tag required": defineErr[struct {
			M string `required:"maybe"`
		}](),
		`field Q: tag minLength:"3": is for text, and this is integer`: defineErr[struct {
			Q int `minLength:"3"`
		}](),
		`field R: tag pattern:"a": is for text, and this is boolean`: defineErr[struct {
			R *bool `pattern:"a"`
		}](),
		`field S: tag minimum:"1": is for numbers, and this is string`: defineErr[struct {
			S []string `minimum:"1"`
		}](),
		`field T: tag maxLength:"x": is no whole number`: defineErr[struct {
			T string `maxLength:"x"`
		}](),
		"field N: field O: tag minimum": defineErr[struct {
			N struct {
				O int `minimum:"x"`
			}
		}](),
		"field P: field O: tag minimum": defineErr[struct {
			P []struct {
				O int `minimum:"x"`
			}
		}](),
		"field Q: field O: tag minimum": defineErr[struct {
			Q map[string]*struct {
				O int `minimum:"x"`
			}
		}](),
	} {
		if !errors.Is(err, toolkit.ErrDefinition) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"probe": input: `) {
			t.Errorf("got %v, want ErrDefinition with %q", err, want)
		}
	}
}

type (
	knot  struct{ Next *knot }
	knots struct{ All []knots }
	left  struct{ Right map[string]right }
	right struct{ Left *left }
)

// Arguments are an object of finite depth that JSON can say.
func TestTypesWithoutASchema(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"string": defineErr[string](), "[]int": defineErr[[]int](), "int": defineErr[int](), "interface": defineErr[any](), "func()": defineErr[func()](),
		"knot": defineErr[knot](), "knots": defineErr[knots](), "left": defineErr[left](),
		"chan int": defineErr[struct{ C chan int }](), "complex": defineErr[struct{ C complex128 }](), "func": defineErr[struct{ C []func() }](),
	} {
		if !errors.Is(err, toolkit.ErrDefinition) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ErrDefinition with %q", err, want)
		}
	}
	_, err := toolkit.Define("probe", "d", func(context.Context, none) (knot, error) { return knot{}, nil }, nil)
	if !errors.Is(err, toolkit.ErrDefinition) || !strings.Contains(err.Error(), "output") {
		t.Errorf("a recursive result: got %v, want ErrDefinition", err)
	}
	if _, err := toolkit.Define("no name", "d", func(context.Context, none) (string, error) { return "", nil }, nil); !errors.Is(err, toolkit.ErrDefinition) {
		t.Errorf("a bad name: got %v, want ErrDefinition", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("MustDefine did not panic")
		}
	}()
	toolkit.MustDefine("", "", func(context.Context, none) (string, error) { return "", nil }, nil)
}
