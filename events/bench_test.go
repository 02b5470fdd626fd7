package events_test

import (
	"encoding/json"
	"testing"

	"github.com/toolwire/toolwire/events"
)

// work300 is about 300 bytes of a usual work item.
func work300(b *testing.B) []byte {
	b.Helper()
	data, err := events.Marshal(events.ToolWork{
		Call:  events.Call{ID: "call_1", Name: "get_weather", Input: json.RawMessage(`{"city":"Zürich","days":[1,2,3],"opts":{"units":"metric","exact":true}}`)},
		Agent: "local", Definition: "5f1d0c3b9a7e4d2c8b6f0e1a2d3c4b5a", SessionRevision: 3, AcceptedAt: at(0), QueueUntil: at(1),
	})
	if err != nil {
		b.Fatal(err)
	}
	return data
}

func BenchmarkCheckJSON(b *testing.B) {
	data := work300(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := events.CheckJSON(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	data := work300(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	var w events.ToolWork
	for b.Loop() {
		if err := events.Unmarshal(data, &w); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncodingJSON is what the standard library takes for the same, less strictly.
func BenchmarkEncodingJSON(b *testing.B) {
	data := work300(b)
	var w events.ToolWork
	b.Run("unmarshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := json.Unmarshal(data, &w); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("marshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(&w); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkMarshal(b *testing.B) {
	for _, v := range vectors() {
		if v.data == nil {
			continue
		}
		b.Run(v.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := events.Marshal(v.data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	e := vectors()[0].event(b)
	b.ReportAllocs()
	for b.Loop() {
		events.Encode(e)
	}
}

func BenchmarkDecode(b *testing.B) {
	h, body := events.Encode(vectors()[0].event(b))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := events.Decode(h, body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSubjects(b *testing.B) {
	s := events.Subjects{}
	k := events.CallKey{Session: "s-42", Turn: "t-7", Call: "call_1"}
	b.Run("work", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Work("weather", "get_weather", k)
		}
	})
	b.Run("parse", func(b *testing.B) {
		subject := s.Work("weather", "get_weather", k)
		b.ReportAllocs()
		for b.Loop() {
			if _, _, _, err := s.ParseWork(subject); err != nil {
				b.Fatal(err)
			}
		}
	})
}
