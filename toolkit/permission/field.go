package permission

import (
	"encoding/json"
)

// fieldMatcher compares one argument that is text.
type fieldMatcher struct {
	text          string
	present, sure bool
}

func newFieldMatcher(def Tool, input json.RawMessage, name string) fieldMatcher {
	var m fieldMatcher
	m.text, m.present, m.sure = readArguments(def, input).text(name)
	return m
}

func (m fieldMatcher) refuses(content string) verdict {
	switch {
	case !m.sure:
		return unsure
	case m.present && wildcard(content).match(m.text, true):
		return hit
	}
	return miss
}

func (m fieldMatcher) covers(contents []string) ([]int, bool) {
	if !m.sure || !m.present {
		return nil, false
	}
	for i, c := range contents {
		if wildcard(c).match(m.text, false) {
			return []int{i}, true
		}
	}
	return nil, false
}

func (fieldMatcher) readOnly() bool   { return false }
func (fieldMatcher) check(bool) Check { return Check{} }

func (m fieldMatcher) suggest() ([]string, bool) {
	if !m.sure || !m.present {
		return nil, false
	}
	return []string{escape(m.text)}, true
}
