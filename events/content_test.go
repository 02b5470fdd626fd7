package events_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
)

func TestContent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		content events.Content
		json    string
		kind    string
		text    string
		isText  bool
	}{
		{events.Text("a <b>\x00\n"), `{"type":"text","text":"a <b>\u0000\n"}`, "text", "a <b>\x00\n", true},
		{events.Text(""), `{"type":"text","text":""}`, "text", "", true},
		{events.Text("\xff"), `{"type":"text","text":"` + "\uFFFD" + `"}`, "text", "\uFFFD", true},
		{events.Image("image/png", []byte{0, 255}), `{"type":"image","data":"AP8=","mimeType":"image/png"}`, "image", "", false},
		{events.Audio("audio/wav", nil), `{"type":"audio","data":"","mimeType":"audio/wav"}`, "audio", "", false},
		{events.ResourceLink("file:///a", "a", ""), `{"type":"resource_link","uri":"file:///a","name":"a"}`, "resource_link", "", false},
		{events.ResourceLink("file:///a", "a", "text/plain"), `{"type":"resource_link","uri":"file:///a","name":"a","mimeType":"text/plain"}`, "resource_link", "", false},
		{events.Content(`{"text":"\ud800","type":"text"}`), `{"text":"\ud800","type":"text"}`, "text", "\uFFFD", true},
		{events.Content(`{"type":"text","text":5}`), `{"type":"text","text":5}`, "text", "", false},
		{events.Content(`{"type":"later","text":"x","Type":"text"}`), `{"type":"later","text":"x","Type":"text"}`, "later", "", false},
		{events.Content(`{"type":5}`), `{"type":5}`, "", "", false},
		{events.Content(`{}`), `{}`, "", "", false},
		{nil, ``, "", "", false},
		{events.Content(`{"type":"text","text":"x"`), `{"type":"text","text":"x"`, "", "", false},
	} {
		if diff := cmp.Diff(tc.json, string(tc.content)); diff != "" {
			t.Error(diff)
		}
		if got := tc.content.Kind(); got != tc.kind {
			t.Errorf("%s: kind %q, want %q", tc.content, got, tc.kind)
		}
		if text, ok := tc.content.Text(); text != tc.text || ok != tc.isText {
			t.Errorf("%s: text %q, %v, want %q, %v", tc.content, text, ok, tc.text, tc.isText)
		}
	}
}

func TestToolResultText(t *testing.T) {
	t.Parallel()
	image := events.Image("image/png", nil)
	for _, tc := range []struct {
		content []events.Content
		want    string
	}{
		{nil, ""},
		{[]events.Content{image}, ""},
		{[]events.Content{events.Text("a")}, "a"},
		{[]events.Content{events.Text("a"), image, events.Text("b\n"), events.Text("c")}, "a\nb\n\nc"},
	} {
		if got := (events.ToolResult{Content: tc.content}).Text(); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}
