// Package bench measures Toolwire beside the floor it stands on: a hand-written pipeline of
// three JetStream hops with the same headers, subjects and guards, and no features.
// Both run in turn in one process, so that their ratio holds when the machine's speed drifts.
package bench
