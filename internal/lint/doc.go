// Package lint holds nothing but tests of the rules in .golangci.yml: a rule whose glob matches no
// file looks exactly like a rule that is kept. With the build tag lint they lay out a small module
// in a temporary directory, plant a violation of every rule, and expect golangci-lint to report
// each of them and nothing else.
package lint
