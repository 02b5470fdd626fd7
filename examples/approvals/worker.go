package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

// deployment is the input of the tool.
type deployment struct {
	Service string `json:"service" description:"what is deployed" minLength:"1"`
	Version string `json:"version" description:"which version of it" minLength:"1"`
}

// work runs the tool deploy until ctx ends. It says nothing of approvals: who is asked about it is up to the
// installation.
func work(ctx context.Context, nc *nats.Conn, file string) error {
	deploy := func(_ context.Context, in deployment) (string, error) {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the file of the example
		if err != nil {
			return "", err
		}
		_, err = fmt.Fprintln(f, in.Service, in.Version)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", err
		}
		return in.Service + " " + in.Version + " is live", nil
	}
	tool, err := toolkit.Define("deploy", "Puts a version of a service into production.", deploy, nil)
	if err != nil {
		return err
	}
	tools := toolkit.New()
	if err := tools.Add(tool); err != nil {
		return err
	}
	w, err := workers.New(nc, tools, workers.Config{Name: "deployer", Logger: zerolog.New(os.Stderr).Level(zerolog.WarnLevel)})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}
