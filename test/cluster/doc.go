// Package cluster holds tests on three servers of this process, in real time, behind tag cluster:
// what decides is read from leaders, whichever server a process is connected to.
package cluster
