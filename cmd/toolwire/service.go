package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

// service is a part that runs until it is told to stop.
type service struct {
	name   string
	run    func(context.Context) error
	ready  func() error // nil: it takes work now
	health func() error // nil: there is no need to restart it
	figure prometheus.Collector
}

// serve runs services, and HTTP if it has an address, until ctx ends or one of them fails; all
// of them have ended when it returns.
func serve(ctx context.Context, httpAddr string, log zerolog.Logger, services ...service) error {
	g, ctx := errgroup.WithContext(ctx)
	var running sync.WaitGroup
	for _, s := range services {
		running.Add(1)
		g.Go(func() error {
			defer running.Done()
			err := s.run(ctx)
			if err == nil && ctx.Err() == nil {
				err = errors.New("ended by itself")
			}
			if err != nil && len(services) > 1 { // alone, it is what the command is called
				err = fmt.Errorf("%s: %w", s.name, err)
			}
			return err
		})
	}
	if httpAddr != "" {
		// It answers until the last service has ended: that one drains is seen, and so is how far.
		until, done := context.WithCancel(context.WithoutCancel(ctx))
		g.Go(func() error { running.Wait(); done(); return nil })
		g.Go(func() error { return serveHTTP(until, httpAddr, log, services) })
	}
	return g.Wait()
}

func newDispatcher(nc *nats.Conn, cfg dispatcher.Config, wait time.Duration) (service, error) {
	d, err := dispatcher.New(nc, cfg)
	if err != nil {
		return service{}, err
	}
	run := func(ctx context.Context) error {
		end, last := time.Now().Add(wait), ""
		for {
			err := d.Run(ctx)
			if err == nil || !settlesItself(err) || time.Now().After(end) {
				return err
			}
			if text := err.Error(); text != last { // once, not every second
				cfg.Logger.Warn().Err(err).Msg("streams cannot be set up yet, trying again")
				last = text
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Second):
			}
		}
	}
	return service{"dispatcher", run, d.Ready, func() error { return nil }, d}, nil
}

// settlesItself says whether setting the streams up may succeed later: a cluster that starts has
// no leader, or not all of its servers.
func settlesItself(err error) bool {
	if !errors.Is(err, jet.ErrTopology) {
		return false
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		const noPeers, tooFewServers = 10005, 10074
		return api.Code == 503 || api.ErrorCode == noPeers || api.ErrorCode == tooFewServers
	}
	return true
}

func newWorker(nc *nats.Conn, tools *toolkit.Toolkit, cfg workers.Config) (service, error) {
	w, err := workers.New(nc, tools, cfg)
	if err != nil {
		return service{}, err
	}
	return service{"worker", w.Run, w.Ready, w.Health, w.Collector()}, nil
}
