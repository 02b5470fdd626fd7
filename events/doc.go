// Package events is what is said on the wire: event types, subjects, codec and reasons.
//
// It knows nothing of NATS connections; subjects and headers are plain strings and maps.
package events
