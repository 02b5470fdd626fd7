// Package jet is JetStream as Toolwire uses it: the topology, storing facts that may be
// stored once, reading them from the leader, pulling only what there is a free slot for,
// and bodies too large for an event.
package jet
