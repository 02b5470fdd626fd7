package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/auth"
	"github.com/toolwire/toolwire/internal/embed"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/workers"
)

// Exit codes beside those of the table of reasons.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitPending = 11 // apply --dry-run, permit replay: there are changes
	exitRefused = 12 // approvals: the answer was refused
	exitAsks    = 13 // permit test: people would be asked
)

// exitError is an error with an exit code of its own. Without a text nothing is printed: the
// command has said all already.
type exitError struct {
	err  error
	exit int
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usagef is an error of whoever typed the command.
func usagef(format string, args ...any) error {
	return &exitError{fmt.Errorf(format, args...), exitUsage}
}

// silent ends the process with a code after the command has told why.
func silent(exit int) error { return &exitError{nil, exit} }

// kind is a sentinel of one of our packages: what it means to a script, and what a person can do
// where the text does not say so.
type kind struct {
	err  error
	exit int
	cure string
}

func kinds() []kind {
	exit := func(r events.Reason) int { return r.Outcome().Exit }
	return []kind{
		{agent.ErrInvalid, exit(events.ReasonInvalidInput), ""},
		{agent.ErrTurnReused, exit(events.ReasonInvalidInput), "give another --turn"},
		{agent.ErrConflict, exit(events.ReasonInvalidInput), ""},
		{agent.ErrNotFound, exit(events.ReasonNotFound), ""},
		{agent.ErrDenied, exit(events.ReasonDeniedByRule), "give credentials that may, with --creds or --context; the dispatchers are told with --operators who is an operator"},
		{agent.ErrUnavailable, exit(events.ReasonUnavailable), "start `toolwire up` or `toolwire dispatcher`; `toolwire doctor` says more"},
		{agent.ErrFull, exit(events.ReasonUnavailable), "wait until workers have caught up, or add some"},
		{agent.ErrClosed, exit(events.ReasonUnavailable), ""},
		{jet.ErrUnreachable, exit(events.ReasonUnavailable), ""},
		{jet.ErrServer, exit(events.ReasonUnavailable), ""},
		{jet.ErrTopology, exit(events.ReasonUnavailable), ""},
		{jet.ErrRefused, exit(events.ReasonDeniedByRule), ""},
		{jet.ErrDenied, exit(events.ReasonDeniedByRule), ""},
		{auth.ErrName, exitUsage, ""},
		{auth.ErrMissing, exit(events.ReasonNotFound), ""},
		{auth.ErrExists, exitFailed, ""},
		{auth.ErrBroken, exitFailed, ""},
		{embed.ErrAddr, exitFailed, ""},
		{embed.ErrInUse, exitFailed, ""},
		{embed.ErrStart, exitFailed, ""},
		{dispatcher.ErrConfig, exitUsage, ""},
		{workers.ErrConfig, exitUsage, ""},
		{events.ErrToken, exitUsage, ""},
		{context.DeadlineExceeded, exit(events.ReasonTimeout), ""},
		{context.Canceled, exit(events.ReasonCancelled), ""},
	}
}

// describe returns the text of an error for people, less the package names that Go programmers
// want in it, and its exit code.
func describe(err error) (text string, exit int) {
	text, exit = err.Error(), 0
	cure := ""
	for _, k := range kinds() {
		if !errors.Is(err, k.err) {
			continue
		}
		if _, bare, ok := strings.Cut(k.err.Error(), ": "); ok {
			text = strings.ReplaceAll(text, k.err.Error(), bare)
		}
		if exit == 0 {
			exit, cure = k.exit, k.cure
		}
	}
	if own, ok := errors.AsType[*exitError](err); ok {
		return text, own.exit
	}
	if cure != "" && !strings.Contains(text, "; ") {
		text += "; " + cure
	}
	return text, max(exit, exitFailed)
}
