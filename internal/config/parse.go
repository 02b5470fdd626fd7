package config

import (
	"errors"

	"go.yaml.in/yaml/v3"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// File is what a file declares.
type File struct {
	Config   toolkit.Config
	Warnings []Problem // what may be meant so, and should not be
}

// Parse reads a file; name is for messages. The error is [ParseError]: everything that is wrong.
func Parse(name string, data []byte) (File, error) {
	root, err := document(name, data)
	if err != nil {
		return File{}, err
	}
	r := newReader(name)
	d := draft{
		Config:  toolkit.Config{Tools: make(map[events.ToolName]toolkit.Override)},
		presets: make(map[events.ToolName]map[string]toolkit.Preset),
	}
	object(r, nil, root, fileFields(), &d, "")
	r.mergePresets(&d)
	r.checkRoles(&d)
	r.check(d.Config, root)
	sortProblems(r.problems)
	sortProblems(r.warnings)
	if len(r.problems) > 0 {
		return File{Warnings: r.warnings}, &ParseError{r.problems}
	}
	return File{Config: d.Config, Warnings: r.warnings}, nil
}

// mergePresets puts what the key presets says to the tools.
func (r *reader) mergePresets(d *draft) {
	for tool, params := range d.presets {
		o := d.Tools[tool]
		if o.Presets == nil {
			o.Presets = make(map[string]toolkit.Preset, len(params))
		}
		there, here := path{"tools", string(tool)}, path{"presets", string(tool)}
		if r.at[there.key()] == nil {
			r.at[there.key()] = r.at[here.key()]
		}
		for param, preset := range params {
			p, q := here.child(param), there.child("presets").child(param)
			switch {
			case r.failed[q.key()]:
			case r.at[q.key()] != nil:
				first, second := r.at[q.key()], r.at[p.key()]
				if second.Line < first.Line {
					first, second = second, first
				}
				r.bad(q, second, "%q of tool %s is preset twice; first in line %d", param, tool, first.Line)
			default:
				o.Presets[param] = preset
				r.at[q.key()] = r.at[p.key()]
				r.failed[q.key()] = r.failed[p.key()]
			}
		}
		d.Tools[tool] = o
	}
}

// check asks the configuration itself what is wrong with it, and finds where that is written.
func (r *reader) check(c toolkit.Config, root *yaml.Node) {
	err := c.Check()
	if err == nil {
		return
	}
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, err := range all {
		n, text := root, err.Error()
		if e, ok := errors.AsType[*toolkit.ConfigError](err); ok {
			if r.known(e.Path) {
				continue
			}
			n, text = r.where(e.Path, root), e.Why
		}
		r.problems = append(r.problems, Problem{r.file, n.Line, n.Column, text})
	}
}
