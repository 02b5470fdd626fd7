package toolkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/toolkittest"
)

func defined(schema string) toolkit.Definition {
	return toolkit.Definition{Name: "search", Description: "searches", InputSchema: json.RawMessage(schema)}
}

func literal(v string) toolkit.Preset { return toolkit.Preset{Value: json.RawMessage(v)} }

// What a model sees: presets are gone, extended properties are there, and the rest is as it was written.
func TestShown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schema   string
		presets  map[string]toolkit.Preset
		extended string
		want     string
	}{
		"nothing to do": {schema: `{ "type":"object" }`, want: `{ "type":"object" }`},
		"preset": {
			schema:  `{"type":"object","properties":{"q":{ "type" : "string"},"key":{"type":"string"}},"required":["q","key"],"additionalProperties":false}`,
			presets: map[string]toolkit.Preset{"key": {Env: "KEY"}},
			want:    `{"type":"object","properties":{"q":{ "type" : "string"}},"required":["q"],"additionalProperties":false}`,
		},
		"the only one, and required": {
			schema:  `{"type":"object","properties":{"key":{}},"required":["key"]}`,
			presets: map[string]toolkit.Preset{"key": literal(`null`)},
			want:    `{"type":"object","properties":{}}`,
		},
		"a name that an open schema does not list": {
			schema:  `{"type":"object","x":1e400}`,
			presets: map[string]toolkit.Preset{"any": literal(`1`)},
			want:    `{"type":"object","x":1e400}`,
		},
		"a name that a pattern lists": {
			schema:  `{"patternProperties":{"^x":{}},"additionalProperties":false}`,
			presets: map[string]toolkit.Preset{"x1": literal(`1`)},
			want:    `{"patternProperties":{"^x":{}},"additionalProperties":false}`,
		},
		"extended": {
			schema:   `{"type":"object","properties":{"q":{"<b>":1}},"required":["q"],"additionalProperties":false,"$defs":{"A":{}}}`,
			extended: `{"type":"object","title":"t","properties":{"why":{"$ref":"#/$defs/B"}},"required":["why","q"],"$defs":{"B":{"type":"string"}},"additionalProperties":false}`,
			want:     `{"type":"object","properties":{"q":{"<b>":1},"why":{"$ref":"#/$defs/B"}},"required":["q","why"],"additionalProperties":false,"$defs":{"A":{},"B":{"type":"string"}}}`,
		},
		"extended without anything there": {
			schema: `{}`, extended: `{"properties":{"why":{}},"required":["why"]}`,
			want: `{"properties":{"why":{}},"required":["why"]}`,
		},
		"an extended property is preset": {
			schema: `{"type":"object"}`, extended: `{"properties":{"a":{},"b":{}},"required":["a","b"]}`,
			presets: map[string]toolkit.Preset{"a": literal(`1`)},
			want:    `{"type":"object","properties":{"b":{}},"required":["b"]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := defined(c.schema).Shown(toolkit.Tuning{Presets: c.presets, Extended: json.RawMessage(c.extended)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got.InputSchema)); diff != "" {
				t.Errorf("schema (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTuningThatDoesNotFit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schema   string
		preset   string
		value    string
		extended string
		want     string
	}{
		"conflict":                  {schema: `{"properties":{"q":{}}}`, extended: `{"properties":{"q":{}}}`, want: `conflicting property "q"`},
		"conflict within a branch":  {schema: `{"allOf":[{"properties":{"q":{}}}]}`, extended: `{"properties":{"q":{}}}`, want: `conflicting property "q"`},
		"conflict of $defs":         {schema: `{"$defs":{"A":{}}}`, extended: `{"$defs":{"A":{}}}`, want: `"A" is in the tool's schema already`},
		"a closed branch":           {schema: `{"$ref":"#/$defs/A","$defs":{"A":{"additionalProperties":false}}}`, extended: `{"properties":{"q":{}}}`, want: "refuses further properties"},
		"another keyword":           {schema: `{}`, extended: `{"anyOf":[{}]}`, want: `"anyOf" cannot be merged`},
		"another type":              {schema: `{}`, extended: `{"type":"array"}`, want: `must be "object"`},
		"no object":                 {schema: `{}`, extended: `[]`, want: "no JSON object"},
		"no JSON":                   {schema: `{}`, extended: `{"a"`, want: "malformed"},
		"properties are no object":  {schema: `{}`, extended: `{"properties":[]}`, want: "properties: no JSON object"},
		"required is no list":       {schema: `{}`, extended: `{"required":{}}`, want: "required"},
		"a reference to nowhere":    {schema: `{}`, extended: `{"properties":{"a":{"$ref":"#/$defs/B"}}}`, want: "extended"},
		"no such parameter":         {schema: `{"additionalProperties":false}`, preset: "key", want: "presets.key: the tool has no such parameter"},
		"declared within a branch":  {schema: `{"allOf":[{"properties":{"key":{}}}]}`, preset: "key", want: "cannot be hidden"},
		"required within a branch":  {schema: `{"properties":{"key":{}},"anyOf":[{"required":["key"]}]}`, preset: "key", want: "cannot be hidden"},
		"the schema refers to it":   {schema: `{"properties":{"key":{},"q":{"$ref":"#/properties/key"}}}`, preset: "key", want: "presets"},
		"a number beyond all sense": {schema: `{}`, preset: "key", value: `1e999999`, want: "presets.key: the value cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tuning := toolkit.Tuning{Extended: json.RawMessage(c.extended)}
			if c.preset != "" {
				value := c.value
				if value == "" {
					value = `"hunter2"`
				}
				tuning.Presets = map[string]toolkit.Preset{c.preset: literal(value)}
			}
			_, err := defined(c.schema).Shown(tuning)
			if !errors.Is(err, toolkit.ErrConfig) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want ErrConfig with %q", err, c.want)
			}
		})
	}
	for _, tuning := range []toolkit.Tuning{{Timeout: -1}, {Attempts: -1}} {
		if _, err := defined(`{}`).Runnable(tuning); !errors.Is(err, toolkit.ErrConfig) {
			t.Errorf("%+v: got %v, want ErrConfig", tuning, err)
		}
	}
}

// Whatever the schema and the tuning: presets are hidden, all else is kept, and what a model sends by
// the shown schema runs, with every preset set and every other byte as it was sent.
func TestShownAndRunnableAgree(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		pick := func(names ...string) (out []string) {
			for _, name := range names {
				if r.IntN(2) == 0 {
					out = append(out, name)
				}
			}
			return out
		}
		own, further := pick("a", "b", "c", "d"), pick("x", "y")
		schema, more := object(own, pick(own...), r.IntN(2) == 0), object(further, pick(further...), r.IntN(2) == 0)
		tuning := toolkit.Tuning{Timeout: toolkit.Duration(time.Minute), Attempts: 2, Presets: map[string]toolkit.Preset{}}
		values := map[string]json.RawMessage{}
		names := own
		if r.IntN(2) == 0 {
			tuning.Extended, names = json.RawMessage(more), slices.Concat(own, further)
		}
		for _, name := range pick(names...) {
			tuning.Presets[name], values[name] = literal(`"preset"`), json.RawMessage(`"preset"`)
		}
		def := defined(schema)
		shown, err := def.Shown(tuning)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if string(def.InputSchema) != schema || shown.Timeout != toolkit.Duration(time.Minute) || shown.Attempts != 2 {
			t.Fatalf("seed %d: the definition was changed, or the tuning is not in it", seed)
		}
		var got struct {
			Properties map[string]json.RawMessage `json:"properties"`
			Required   []string                   `json:"required"`
		}
		if err := json.Unmarshal(shown.InputSchema, &got); err != nil {
			t.Fatal(err)
		}
		visible := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return values[name] != nil })
		slices.Sort(visible)
		if shows := slices.Sorted(maps.Keys(got.Properties)); !slices.Equal(visible, shows) {
			t.Fatalf("seed %d: shows %v, want %v", seed, shows, visible)
		}
		for _, name := range got.Required {
			if !slices.Contains(visible, name) {
				t.Fatalf("seed %d: %q is required and not shown", seed, name)
			}
		}
		sent := make([]string, len(visible)) // all of them, so whatever is required is there
		for i, name := range visible {
			sent[i] = `"` + name + `" : "sent\u0041"`
		}
		input := `{` + strings.Join(sent, ", ") + `}`
		agree(t, seed, def, shown, tuning, values, input)
	}
}

// object is the schema of an object of strings.
func object(properties, required []string, closed bool) string {
	members := make([]string, len(properties))
	for i, name := range properties {
		members[i] = `"` + name + `":{ "type":"string" }`
	}
	s := `{"type":"object","properties":{` + strings.Join(members, ",") + `}`
	if len(required) > 0 {
		b, _ := json.Marshal(required)
		s += `,"required":` + string(b)
	}
	if closed {
		s += `,"additionalProperties":false`
	}
	return s + `}`
}

func agree(t *testing.T, seed uint64, def, shown toolkit.Definition, tuning toolkit.Tuning, values map[string]json.RawMessage, input string) {
	t.Helper()
	judge, err := toolkit.Raw(shown, func(context.Context, json.RawMessage) (toolkit.Result, error) {
		return toolkit.Convert("fits")
	})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if r := toolkittest.Run(t, judge, input, nil).Result; r.Reason != events.ReasonOK {
		t.Fatalf("seed %d: %s does not fit %s: %s", seed, input, shown.InputSchema, r.Text())
	}
	var ran, told json.RawMessage
	tool, err := toolkit.Raw(def, func(ctx context.Context, in json.RawMessage) (toolkit.Result, error) {
		ran, told = in, toolkit.Input(ctx)
		return toolkit.Convert("ran")
	})
	if err != nil {
		t.Fatal(err)
	}
	if tool, err = tool.Tuned(tuning); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if r := toolkittest.Run(t, tool, input, &toolkittest.Options{Presets: values}).Result; r.Reason != events.ReasonOK {
		t.Fatalf("seed %d: %s does not run with %v: %s", seed, input, tuning.Presets, r.Text())
	}
	if string(ran) != string(told) {
		t.Fatalf("seed %d: ran with %s, Input says %s", seed, ran, told)
	}
	var got, sent map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(ran, &got), json.Unmarshal([]byte(input), &sent)); err != nil {
		t.Fatal(err)
	}
	maps.Copy(sent, values)
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Fatalf("seed %d: input of the tool (-want +got):\n%s", seed, diff)
	}
}

// T9: a preset wins over the model, middleware does not see it, and an external tool does not get it.
func TestPresets_T9(t *testing.T) {
	t.Parallel()
	type in struct {
		Q   string `json:"q"`
		Key string `json:"key"`
	}
	tool := toolkit.MustDefine("search", "searches", func(ctx context.Context, v in) (string, error) {
		return v.Q + " by " + v.Key + " " + string(toolkit.Input(ctx)), nil
	}, nil)
	var seen []string
	spy := func(next toolkit.Handler) toolkit.Handler {
		return func(ctx context.Context, in json.RawMessage) (toolkit.Result, error) {
			seen = append(seen, string(in), string(toolkit.Input(ctx)))
			return next(ctx, in)
		}
	}
	out := toolkittest.Run(t, tool, `{"q":"x", "key":"mine"}`, &toolkittest.Options{
		Presets: map[string]json.RawMessage{"key": json.RawMessage(`"sésame"`)}, Middleware: []toolkit.Middleware{spy},
	})
	if got, want := out.Result.Text(), `x by sésame {"q":"x","key":"sésame"}`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, s := range seen {
		if s != `{"q":"x", "key":"mine"}` {
			t.Errorf("middleware saw %s", s)
		}
	}

	def := defined(`{"type":"object"}`)
	def.External = true
	external, err := toolkit.Raw(def, func(_ context.Context, in json.RawMessage) (toolkit.Result, error) {
		return toolkit.Convert(string(in))
	})
	if err != nil {
		t.Fatal(err)
	}
	out = toolkittest.Run(t, external, `{}`, &toolkittest.Options{Presets: map[string]json.RawMessage{"key": json.RawMessage(`1`)}})
	if out.Result.Text() != `{}` {
		t.Errorf("external tool got %s", out.Result.Text())
	}
}

// A preset that does not fit is no fault of the model's, and its value is told nowhere.
func TestPresetThatDoesNotFit(t *testing.T) {
	t.Parallel()
	tool, err := toolkit.Raw(defined(`{"properties":{"key":{"type":"string","pattern":"^[0-9]+$"},"q":{"type":"string"}}}`),
		func(context.Context, json.RawMessage) (toolkit.Result, error) { return toolkit.Convert("ran") })
	if err != nil {
		t.Fatal(err)
	}
	presets := map[string]json.RawMessage{"key": json.RawMessage(`"hunter2"`)}
	out := toolkittest.Run(t, tool, `{"q":1}`, &toolkittest.Options{Presets: presets})
	if out.Result.Reason != events.ReasonUnavailable || len(out.Failures) != 1 || !strings.Contains(out.Failures[0].Error(), `"key"`) {
		t.Errorf("got %s, %v, want unavailable and why", out.Result.Reason, out.Failures)
	}
	if all := out.Result.Text() + fmt.Sprint(out.Failures); strings.Contains(all, "hunter2") {
		t.Errorf("the value was told: %s", all)
	}
	presets["key"] = json.RawMessage(`"42"`)
	for input, reason := range map[string]events.Reason{`{"q":1}`: events.ReasonInvalidInput, `[]`: events.ReasonInvalidInput, `{"q":"x"}`: events.ReasonOK, ``: events.ReasonOK} {
		if r := toolkittest.Run(t, tool, input, &toolkittest.Options{Presets: presets}).Result; r.Reason != reason {
			t.Errorf("%s: got %s %q, want %s", input, r.Reason, r.Text(), reason)
		}
	}
}

type careless struct{}

func (*careless) UnmarshalText(b []byte) error { return fmt.Errorf("cannot read %s", b) }

// The Go type of the tool takes no preset of that kind, and quotes it.
func TestPresetThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	tool := toolkit.MustDefine("x", "reads", func(context.Context, struct {
		Key careless `json:"key"`
	},
	) (string, error) {
		return "ran", nil
	}, nil)
	out := toolkittest.Run(t, tool, `{}`, &toolkittest.Options{Presets: map[string]json.RawMessage{"key": json.RawMessage(`"hunter2"`)}})
	if all := out.Result.Text() + fmt.Sprint(out.Failures); out.Result.Reason != events.ReasonInvalidInput || strings.Contains(all, "hunter2") {
		t.Errorf("got %s %s", out.Result.Reason, all)
	}
}

// Extended values reach a typed tool through Input.
func TestExtendedValues(t *testing.T) {
	t.Parallel()
	tool := toolkit.MustDefine("search", "searches", func(ctx context.Context, _ struct {
		Q string `json:"q"`
	},
	) (string, error) {
		var more struct {
			Why string `json:"why"`
		}
		err := json.Unmarshal(toolkit.Input(ctx), &more)
		return more.Why, err
	}, nil)
	tuned, err := tool.Tuned(toolkit.Tuning{Extended: json.RawMessage(`{"properties":{"why":{"type":"string"}},"required":["why"]}`)})
	if err != nil {
		t.Fatal(err)
	}
	if r := toolkittest.Run(t, tuned, `{"q":"x","why":"curious"}`, nil).Result; r.Text() != "curious" {
		t.Errorf("got %s %q", r.Reason, r.Text())
	}
	if r := toolkittest.Run(t, tuned, `{"q":"x"}`, nil).Result; r.Reason != events.ReasonInvalidInput {
		t.Errorf("without a required one: got %s %q", r.Reason, r.Text())
	}
	if got := toolkit.Input(t.Context()); got != nil {
		t.Errorf("outside of a call: got %s", got)
	}
}

// Whatever a schema and a tuning say, Shown refuses or makes a definition that may be registered.
func FuzzShown(f *testing.F) {
	f.Add(`{"type":"object","properties":{"q":{},"key":{}},"required":["key"]}`, `{"properties":{"why":{}}}`, "key")
	f.Add(`{"$ref":"#/$defs/A","$defs":{"A":{"properties":{"q":{}}}}}`, `{"$defs":{"B":{}}}`, "q")
	f.Fuzz(func(t *testing.T, schema, extended, preset string) {
		def := defined(schema)
		if def.Check() != nil {
			return
		}
		tuning := toolkit.Tuning{Extended: json.RawMessage(extended), Presets: map[string]toolkit.Preset{preset: literal(`1`)}}
		shown, err := def.Shown(tuning)
		if err != nil {
			if !errors.Is(err, toolkit.ErrConfig) {
				t.Fatalf("got %v, want ErrConfig", err)
			}
			return
		}
		if err := shown.Check(); err != nil {
			t.Fatalf("%s with %s, %q: %v", schema, extended, preset, err)
		}
		var got struct {
			Properties map[string]any `json:"properties"`
			Required   []string       `json:"required"`
		}
		if err := json.Unmarshal(shown.InputSchema, &got); err != nil {
			return // keywords of other kinds
		}
		if _, there := got.Properties[preset]; there || slices.Contains(got.Required, preset) {
			t.Fatalf("preset %q is shown: %s", preset, shown.InputSchema)
		}
	})
}
