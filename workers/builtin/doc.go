// Package builtin holds the tools that come with Toolwire.
package builtin
