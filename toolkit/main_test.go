package toolkit_test

import (
	"testing"

	"go.uber.org/goleak"
)

// The engine for ECMAScript patterns keeps a clock for a while after the last match; it ends by itself.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/dlclark/regexp2/v2.runClock"))
}
