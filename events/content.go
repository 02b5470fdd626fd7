package events

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Content is one MCP content block, kept byte for byte, unknown types included.
type Content json.RawMessage

// Text makes an MCP text block. What is not UTF-8 in s becomes U+FFFD.
func Text(s string) Content {
	return block("text", "text", s)
}

// Image makes an MCP image block of data, whose type is mime, such as image/png.
func Image(mime string, data []byte) Content {
	return block("image", "data", base64.StdEncoding.EncodeToString(data), "mimeType", mime)
}

// Audio makes an MCP audio block of data, whose type is mime, such as audio/wav.
func Audio(mime string, data []byte) Content {
	return block("audio", "data", base64.StdEncoding.EncodeToString(data), "mimeType", mime)
}

// ResourceLink makes an MCP link to a resource; mime may be empty.
func ResourceLink(uri, name, mime string) Content {
	if mime == "" {
		return block("resource_link", "uri", uri, "name", name)
	}
	return block("resource_link", "uri", uri, "name", name, "mimeType", mime)
}

// block writes a content block; members are names and values in turn.
func block(kind string, members ...string) Content {
	n := 32
	for _, m := range members {
		n += len(m) + 4
	}
	w := writer{b: make([]byte, 0, n+n/16)}
	w.open('{')
	w.text("type", kind)
	for pair := range slices.Chunk(members, 2) {
		w.text(pair[0], strings.ToValidUTF8(pair[1], "\uFFFD"))
	}
	w.shut('}')
	return w.b
}

// Kind returns the type of the block: text, image, audio, resource_link, resource or what a
// later MCP adds; empty if it has none.
func (c Content) Kind() string {
	kind, _ := c.peek()
	return kind
}

// Text returns the text of a text block; false for any other.
func (c Content) Text() (string, bool) {
	kind, text := c.peek()
	if kind != "text" || text == nil {
		return "", false
	}
	return *text, true
}

// peek reads what is asked of a block so far.
func (c Content) peek() (kind string, text *string) {
	var b blockReader
	s := scanner{data: c}
	if s.begin() {
		s.object(&b)
	}
	if s.end() != nil {
		return "", nil
	}
	return b.kind, b.text
}

type blockReader struct {
	kind string
	text *string
}

func (b *blockReader) field(s *scanner, key []byte) bool {
	switch {
	case string(key) == "type" && s.peek() == '"':
		b.kind = s.looseText()
	case string(key) == "text" && s.peek() == '"':
		text := s.looseText()
		b.text = &text
	default:
		s.value()
	}
	return true
}

// looseText reads a string of raw JSON: a surrogate without its other half becomes U+FFFD.
func (s *scanner) looseText() string {
	inner, escaped, _ := s.str()
	if !escaped {
		return string(inner)
	}
	text, paired := unescape(inner)
	if !paired {
		return strings.ToValidUTF8(string(text), "\uFFFD")
	}
	return string(text)
}

// MarshalJSON returns the block as it is.
func (c Content) MarshalJSON() ([]byte, error) { return json.RawMessage(c).MarshalJSON() }

// UnmarshalJSON keeps the block as it is. What is no object is an error: it could not be written again.
func (c *Content) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '{' {
		return fmt.Errorf("%w: a content block is no JSON object", ErrMalformed)
	}
	*c = append((*c)[:0], b...)
	return nil
}

// Text returns the text blocks of the result, joined by newlines.
func (r ToolResult) Text() string {
	if len(r.Content) == 1 {
		text, _ := r.Content[0].Text()
		return text
	}
	var texts []string
	for _, c := range r.Content {
		if text, ok := c.Text(); ok {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}
