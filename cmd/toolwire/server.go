package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/internal/embed"
)

type serverFlags struct {
	addr, name, store, sync string
	clusterName, cluster    string
	routes                  []string
	maxStore                byteSize
	guard                   guardFlags
	log                     logFlags
}

func (a *app) serverCommand() *cobra.Command {
	var f serverFlags
	cmd := &cobra.Command{
		Use: "server", Short: "Run a NATS server with JetStream, alone or as a node of a cluster",
		Long: "Runs the embedded NATS server and nothing else: for a cluster without any other software, for\n" +
			"tests and small installations. Any NATS server 2.14 or newer does as well, and can do more.\n\n" +
			"Without --auth everybody who reaches it may do everything, so keep it in a network that you trust.\n" +
			"With --auth it lets in who has credentials (`toolwire auth`), with --tls-cert and --tls-key it speaks\n" +
			"TLS, and with --tls-ca it wants certificates of its clients and of the other nodes of a cluster.",
		Example: "  toolwire server --store /data\n" +
			"  toolwire server --name n1 --addr 0.0.0.0:4222 --store /data --cluster-name c \\\n" +
			"      --cluster 0.0.0.0:6222 --routes nats://n2:6222,nats://n3:6222 --sync always\n" +
			"  toolwire server --auth-dir /etc/toolwire/auth --tls-cert server.pem --tls-key server.key",
		GroupID: "run", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.server(cmd.Context(), f) },
	}
	p := cmd.Flags()
	p.StringVar(&f.addr, "addr", a.setting("", "TOOLWIRE_ADDR"), "`address` for clients, port 0: any free one (TOOLWIRE_ADDR; default "+defaultAddr+")")
	p.StringVar(&f.name, "name", "", "`name` of the server, its own in the cluster (default toolwire)")
	p.StringVar(&f.store, "store", "", "data `directory` (default: toolwire/server in the state directory of the user)")
	p.StringVar(&f.clusterName, "cluster-name", "toolwire", "`name` of the cluster, the same on all nodes")
	p.StringVar(&f.cluster, "cluster", "", "`address` for the other nodes; empty: no cluster")
	p.StringSliceVar(&f.routes, "routes", nil, "`URLs` of the other nodes, separated by commas")
	syncFlag(cmd, &f.sync)
	f.guard.register(cmd)
	p.Var(&f.maxStore, "max-store", "most `bytes` on disk, such as 20G")
	f.log.register(cmd, "warn")
	return cmd
}

func (a *app) server(ctx context.Context, f serverFlags) error {
	if len(f.routes) > 0 && f.cluster == "" {
		return usagef("--routes without --cluster; give the address where the other nodes connect, such as --cluster 0.0.0.0:6222")
	}
	if err := a.alone(); err != nil {
		return err
	}
	log, err := a.logger(f.log)
	if err != nil {
		return err
	}
	if f.store == "" {
		dir, err := a.stateDir()
		if err != nil {
			return err
		}
		f.store = filepath.Join(dir, "server")
	}
	cfg := embed.Config{
		Store: f.store, Addr: f.addr, Name: f.name, Sync: f.sync, MaxStore: int64(f.maxStore),
		ClusterName: f.clusterName, Cluster: f.cluster, Routes: f.routes,
		Logger: log.With().Str("component", "nats").Logger(), Ready: time.Minute,
	}
	if cfg.TLS, err = a.conn.tls.serverTLS(); err != nil {
		return err
	}
	keys, err := a.guard(f.guard)
	if err != nil {
		return err
	}
	if err := a.trust(&cfg, keys); err != nil {
		return err
	}
	srv, err := embed.Start(cfg)
	if err != nil {
		return err
	}
	defer srv.Stop()
	a.print("listening on %s, data in %s\n", srv.URL(), f.store)
	<-ctx.Done()
	return nil
}
