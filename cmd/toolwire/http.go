package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

func httpFlag(cmd *cobra.Command, addr *string) {
	cmd.Flags().StringVar(addr, "http", "", "`address` that serves /healthz, /readyz and /metrics, such as 127.0.0.1:8080")
}

// serveHTTP serves what supervisors and Prometheus ask for, until ctx ends.
func serveHTTP(ctx context.Context, addr string, log zerolog.Logger, services []service) error {
	handler, err := httpHandler(services)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("http: %s is taken by another process; give another address with --http", addr)
	case err != nil:
		return fmt.Errorf("http: %w; give an address such as 127.0.0.1:8080 with --http", err)
	}
	log.Info().Str(fieldAddr, l.Addr().String()).Msg("serving http")
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		stopped <- s.Shutdown(end)
	}()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("http: %w", err)
	}
	if err := <-stopped; err != nil {
		log.Debug().Err(err).Msg("a request was cut")
	}
	return nil
}

func httpHandler(services []service) (http.Handler, error) {
	reg := prometheus.NewRegistry()
	errs := []error{
		reg.Register(collectors.NewGoCollector()),
		reg.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	}
	for _, s := range services {
		errs = append(errs, reg.Register(s.figure))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	all := func(check func(service) error) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			for _, s := range services {
				if err := check(s); err != nil {
					w.WriteHeader(http.StatusServiceUnavailable)
					_, _ = fmt.Fprintln(w, err)
					return
				}
			}
			_, _ = fmt.Fprintln(w, "ok")
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", all(func(s service) error { return s.health() }))
	mux.HandleFunc("GET /readyz", all(func(s service) error { return s.ready() }))
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg}))
	return mux, nil
}
