package toolkit_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// Each thing that is wrong says where: for a program by the keys, for people in its text.
func TestConfigCheck(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string][]string{
		`{}`: nil,
		`{"groups":[{"name":"a","tools":["x","mcp__s__*","*"],"scope":"session"}],"tools":{"x":{"timeout":"1s","dangerousFiles":[],"presets":{"p":{"value":null}},"extended":{"type":"object","properties":{"q":{}},"required":["q"]}}}}`: nil,
		`{"groups":[{"name":"basic"},{"name":"a b"},{},{"name":"d"},{"name":"d"}]}`: {
			"groups/0/name: the name is reserved", "groups/1/name: the name must be", "groups/2/name: the name must be", "groups/4/name: the name appears twice",
		},
		`{"groups":[{"name":"a","tools":["x","a*b",""]}]}`: {`groups/0/tools/2: tool "" is neither`, `groups/0/tools/1: tool "a*b" is neither`},
		`{"tools":{"a b":{},"x":{"timeout":"-1s","attempts":-1,"group":"a b"}}}`: {
			"tools/a b: the name must be", "tools/x/attempts: attempts is negative", `tools/x/group: group "a b" must be`, "tools/x/timeout: timeout is negative",
		},
		`{"tools":{"x":{"presets":{"a":{},"b":{"value":1,"env":"E"},"c":{"value":1e999999999},"d":{"file":"../up"},"e":{"file":"in/dir"}}}}}`: {
			"tools/x/presets/a: give one of", "tools/x/presets/b: give one of", "tools/x/presets/c: the value is no JSON", `tools/x/presets/d: file "../up" is not a path within`,
		},
		`{"tools":{"a":{"extended":{"properties":{"p":{"type":5}}}}}}`: {"tools/a/extended: extended: /properties/p/type: "},
		`{"tools":{"a":{"extended":{"city":{}}}}}`:                     {`tools/a/extended: extended: "city" cannot be merged; give properties`},
		`{"tools":{"a":{"extended":{"properties":5}}}}`:                {"tools/a/extended: extended: "},
	} {
		var c toolkit.Config
		if err := events.Unmarshal([]byte(raw), &c); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		err := c.Check()
		var got []string
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, err := range joined.Unwrap() {
				e, ok := errors.AsType[*toolkit.ConfigError](err)
				if !ok || !errors.Is(err, toolkit.ErrConfig) || strings.Contains(err.Error(), "\n") {
					t.Fatalf("%s: got %v", raw, err)
				}
				got = append(got, strings.Join(e.Path, "/")+": "+e.Why)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: got %q, want %q", raw, got, want)
			continue
		}
		for i := range want {
			if !strings.HasPrefix(got[i], want[i]) {
				t.Errorf("%s: got %s, want %s", raw, got[i], want[i])
			}
		}
	}
}

// An empty list takes the place of the definition's; it survives being stored.
func TestEmptyOverrideIsKept(t *testing.T) {
	t.Parallel()
	in := toolkit.Override{DangerousFiles: []string{}}
	raw, err := json.Marshal(in)
	var out toolkit.Override
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if d := cmp.Diff(in, out); err != nil || d != "" {
		t.Errorf("%v\n-want +got:\n%s", err, d)
	}
}
