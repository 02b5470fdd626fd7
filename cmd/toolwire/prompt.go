package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"charm.land/huh/v2"

	"github.com/toolwire/toolwire/internal/show"
)

// interactive says whether somebody can be asked: both ends are terminals.
func (a *app) interactive() bool { return isTerminal(a.in) && isTerminal(a.err) }

// prompter asks on a terminal: with forms, or line by line on one that has no cursor (TERM=dumb) and
// for screen readers (ACCESSIBLE).
type prompter struct {
	in  io.Reader
	out io.Writer

	lines *bufio.Reader // nil: with forms
}

func (a *app) prompter() *prompter {
	p := &prompter{in: a.in, out: a.err}
	if a.env["TERM"] == "dumb" || a.env["TERM"] == "" || a.env["ACCESSIBLE"] != "" {
		p.lines = bufio.NewReader(a.in)
	}
	return p
}

// option is something to choose.
type option struct{ key, text string }

// choose asks for one of several; the first is chosen by whoever just presses Enter.
func (p *prompter) choose(ctx context.Context, title string, options []option) (string, error) {
	if p.lines != nil {
		_, _ = fmt.Fprintln(p.out, title)
		for i, o := range options {
			_, _ = fmt.Fprintf(p.out, "  %d. %s\n", i+1, show.Line(o.text))
		}
		for {
			s, err := p.line(ctx, "Number [1]: ")
			if s == "" || err != nil {
				return options[0].key, err
			}
			if n, err := strconv.Atoi(s); err == nil && n >= 1 && n <= len(options) {
				return options[n-1].key, nil
			}
		}
	}
	var chosen string
	err := p.form(ctx, huh.NewSelect[string]().Title(title).Options(formOptions(options)...).Value(&chosen))
	return chosen, err
}

// several asks for any number of several.
func (p *prompter) several(ctx context.Context, title string, options []option) (chosen []string, err error) {
	if p.lines == nil {
		err = p.form(ctx, huh.NewMultiSelect[string]().Title(title).Options(formOptions(options)...).Value(&chosen))
		return chosen, err
	}
	_, _ = fmt.Fprintln(p.out, title)
	for i, o := range options {
		_, _ = fmt.Fprintf(p.out, "  %d. %s\n", i+1, show.Line(o.text))
	}
	for {
		s, err := p.line(ctx, "Numbers, separated by spaces [none]: ")
		if err != nil {
			return nil, err
		}
		if chosen, ok := pick(options, s); ok {
			return chosen, nil
		}
	}
}

// pick reads numbers of options.
func pick(options []option, s string) (chosen []string, ok bool) {
	for _, w := range strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == ',' }) {
		n, err := strconv.Atoi(w)
		if err != nil || n < 1 || n > len(options) {
			return nil, false
		}
		chosen = append(chosen, options[n-1].key)
	}
	return chosen, true
}

// text asks for a line.
func (p *prompter) text(ctx context.Context, title string) (s string, err error) {
	if p.lines != nil {
		return p.line(ctx, title+": ")
	}
	err = p.form(ctx, huh.NewInput().Title(title).Value(&s))
	return strings.TrimSpace(s), err
}

func (p *prompter) line(ctx context.Context, prompt string) (string, error) {
	_, _ = fmt.Fprint(p.out, prompt)
	type read struct {
		s   string
		err error
	}
	got := make(chan read, 1)
	go func() { // ends with the process at the latest
		s, err := p.lines.ReadString('\n')
		got <- read{strings.TrimSpace(s), err}
	}()
	select {
	case <-ctx.Done():
		return "", aborted()
	case r := <-got:
		if r.err != nil && r.s == "" {
			return "", aborted()
		}
		return r.s, nil
	}
}

func (p *prompter) form(ctx context.Context, f huh.Field) error {
	err := huh.NewForm(huh.NewGroup(f)).WithInput(p.in).WithOutput(p.out).RunWithContext(ctx)
	switch {
	case errors.Is(err, huh.ErrUserAborted), err != nil && ctx.Err() != nil:
		return aborted()
	case err != nil:
		return fmt.Errorf("form: %w", err)
	}
	return nil
}

func formOptions(options []option) []huh.Option[string] {
	out := make([]huh.Option[string], len(options))
	for i, o := range options {
		out[i] = huh.NewOption(show.Line(o.text), o.key)
	}
	return out
}
