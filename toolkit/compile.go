package toolkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/dlclark/regexp2/v2"
	inferred "github.com/google/jsonschema-go/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolwire/toolwire/events"
)

// schemaURL is the base of every schema. It is nowhere, so that a $ref to another document, relative
// ones included, asks the loader, which refuses. (Relative to an opaque URL, any would be the schema itself.)
const schemaURL = "toolwire:///schema"

// matchTimeout bounds a pattern that backtracks; the engine checks about every 100 ms.
const matchTimeout = 200 * time.Millisecond

// compile makes a validator of a schema. Nothing is loaded: a $ref to a file or URL is an error.
func compile(schema json.RawMessage) (*jsonschema.Schema, error) {
	if err := events.CheckJSON(schema); err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	if _, ok := doc.(map[string]any); !ok {
		return nil, errors.New("a schema must be a JSON object")
	}
	if err := checkNumbers(doc); err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.AssertFormat()
	c.UseRegexpEngine(pattern)
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
}

// badSchema says on one line what is wrong with a schema that does not compile.
func badSchema(err error) string {
	if bad, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		err = bad.Err
	}
	return strings.ReplaceAll(failures(err), "\n", "; ")
}

// fitsSchema checks a value against a schema made here.
func fitsSchema(s *inferred.Schema, value json.RawMessage) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	v, err := compile(fmt.Appendf(nil, `{"properties":{"value":%s}}`, raw)) // a schema may be a boolean, which does not compile
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(fmt.Appendf(nil, `{"value":%s}`, value)))
	if err != nil {
		return err
	}
	if err := v.Validate(doc); err != nil {
		return errors.New(failures(err))
	}
	return nil
}

// noLoader refuses every reference to another document: the default one would read local files.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("a reference to another document is not followed: %s", url)
}

// pattern compiles a regular expression: Go's engine where it can, which never backtracks, and an
// ECMAScript engine with a time limit for lookaheads and the like.
func pattern(s string) (jsonschema.Regexp, error) {
	if re, err := regexp.Compile(s); err == nil {
		return re, nil
	}
	re, err := regexp2.Compile(s, regexp2.ECMAScript)
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = matchTimeout
	return ecmaRegexp{re}, nil
}

type ecmaRegexp struct{ *regexp2.Regexp }

func (r ecmaRegexp) MatchString(s string) bool {
	ok, err := r.Regexp.MatchString(s)
	return ok && err == nil // out of time: does not match
}
