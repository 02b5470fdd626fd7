package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/auth"
	"github.com/toolwire/toolwire/internal/console"
	"github.com/toolwire/toolwire/internal/embed"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
	"github.com/toolwire/toolwire/workers/builtin"
)

const (
	defaultAddr = "127.0.0.1:4222"
	builtinName = "builtin" // worker program of the built-in tools
)

type upFlags struct {
	addr, store, sync, http string
	file                    string          // a configuration to apply
	config                  *toolkit.Config // what is in it; nil: no file
	maxStore                byteSize
	secretEnv               []string
	secretDir               string
	console                 consoleFlags
	guard                   guardFlags
	log                     logFlags
}

func (a *app) upCommand() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use: "up", Short: "Run everything in this process: NATS, a dispatcher, the built-in tools",
		Long: "Runs an embedded NATS server with its data on disk, a dispatcher, and a worker with the\n" +
			"built-in tools. Nothing else is needed. The other commands find it by themselves.\n\n" +
			"It listens on loopback without passwords: every process of this machine may use it. With --auth it lets in\n" +
			"only who has credentials (`toolwire auth`), and with --tls-cert and --tls-key it speaks TLS; with --tls-ca\n" +
			"it wants certificates of its clients, too.\n" +
			"Ctrl-C lets running calls end (up to 30 s) and stops; a second one stops at once.",
		Example: "  toolwire up\n  toolwire up -f toolwire.yaml\n  toolwire up --addr 127.0.0.1:0 --store /tmp/try   # any free port, data of its own\n" +
			"  toolwire up --auth",
		GroupID: "run", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.up(cmd.Context(), f) },
	}
	p := cmd.Flags()
	p.StringVar(&f.addr, "addr", a.setting("", "TOOLWIRE_ADDR"), "`address` of the NATS server, port 0: any free one (TOOLWIRE_ADDR; default "+defaultAddr+")")
	p.StringVar(&f.store, "store", "", "data `directory` (default: toolwire/nats in the state directory of the user)")
	fileFlag(cmd, &f.file, "a toolwire.yaml to apply at the start; - for stdin")
	syncFlag(cmd, &f.sync)
	p.Var(&f.maxStore, "max-store", "most `bytes` on disk, such as 20G (default: bounded by the streams, some 13G)")
	secretFlags(cmd, &f.secretEnv, &f.secretDir)
	f.guard.register(cmd)
	f.console.register(cmd, "`address` of the web page on which people answer, port 0: any free one; off: none")
	cmd.Flags().StringVar(&a.actor, "actor", "", "`who` answers on that page (TOOLWIRE_ACTOR; default: your user name)")
	httpFlag(cmd, &f.http)
	f.log.register(cmd, "warn")
	return cmd
}

func syncFlag(cmd *cobra.Command, sync *string) {
	cmd.Flags().StringVar(sync, "sync", "1s", "`when` data is forced to disk: every so often, or always, before it is acknowledged")
}

func (a *app) up(ctx context.Context, f upFlags) error {
	begin := time.Now()
	if err := a.alone(); err != nil {
		return err
	}
	log, err := a.logger(f.log)
	if err != nil {
		return err
	}
	if f.file != "" {
		c, err := a.readConfig(f.file)
		if err != nil {
			return err
		}
		f.config = &c
	}
	if f.store == "" {
		dir, err := a.stateDir()
		if err != nil {
			return err
		}
		f.store = filepath.Join(dir, "nats")
	}
	cfg := embed.Config{
		Store: f.store, Addr: f.addr, Sync: f.sync, MaxStore: int64(f.maxStore),
		Logger: log.With().Str("component", "nats").Logger(),
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
	return a.upOn(ctx, srv, keys, f, begin, log)
}

// upOn runs the services on a server of this process.
func (a *app) upOn(ctx context.Context, srv *embed.Server, keys *auth.Dir, f upFlags, begin time.Time, log zerolog.Logger) error {
	in := &inside{srv: srv, keys: keys}
	defer in.close()
	operators, err := in.operators()
	if err != nil {
		return err
	}
	dc, err := in.connect("dispatcher", jet.RoleDispatcher, "dispatcher")
	if err != nil {
		return err
	}
	d, err := newDispatcher(dc, dispatcher.Config{Prefix: a.prefix(), MaxBytes: share(f.maxStore), Operators: operators, Logger: log}, 0)
	if err != nil {
		return err
	}
	tools, err := builtin.Toolkit()
	if err != nil {
		return err
	}
	wc, err := in.connect("worker", jet.RoleWorker, builtinName, builtinName)
	if err != nil {
		return err
	}
	w, err := newWorker(wc, tools, workers.Config{
		Name: builtinName, Prefix: a.prefix(), SecretEnv: f.secretEnv, SecretDir: f.secretDir, Logger: log,
	})
	if err != nil {
		return err
	}
	cc, err := in.connect("up", jet.RoleOperator, auth.LocalOperator)
	if err != nil {
		return err
	}
	c, err := agent.New(cc, agent.Config{Agent: auth.LocalOperator, Prefix: a.prefix()})
	if err != nil {
		return err
	}
	defer c.Close()
	var names []string
	for t := range tools.All() {
		names = append(names, string(t.Definition().Name))
	}
	announce := service{
		"ready", func(ctx context.Context) error { return a.announce(ctx, c, d, names, in, f, begin) },
		d.ready, d.health,
		noFigures{},
	}
	w.run = a.after(d, dc, w.run)
	services := []service{d, w, announce}
	if f.console.addr != "off" {
		page, err := a.consoleIn(in, f.console, log) //nolint:contextcheck // a client lives until it is closed
		if err != nil {
			return err
		}
		services = append(services, page)
	}
	err = serve(ctx, f.http, log, services...)
	if err == nil {
		a.note("stopped")
	}
	return err
}

// consoleIn is the web page on a server of this process. It is told of once everything else is ready; an
// address that somebody else has is no reason to be without the rest.
func (a *app) consoleIn(in *inside, f consoleFlags, log zerolog.Logger) (service, error) {
	actor := a.setting(a.actor, "TOOLWIRE_ACTOR")
	if actor == "" {
		actor = a.userName()
	}
	if a.namesPerson(actor) != nil {
		actor = "approver" // the user of this machine has no name of his own
	}
	nc, err := in.connect("console", jet.RoleApprover, actor)
	if err != nil {
		return service{}, fmt.Errorf("console: %w; give another name with --actor, or --console off", err)
	}
	c, err := agent.New(nc, agent.Config{Agent: events.AgentID(actor), Prefix: a.prefix(), Logger: log})
	if err != nil {
		return service{}, err
	}
	page, err := a.newConsole(c, f, actor, log)
	if err != nil {
		c.Close()
		return service{}, err
	}
	s := consoleService(page, c, func() {})
	in.page = page
	run := s.run
	s.run = func(ctx context.Context) error {
		err := run(ctx)
		if errors.Is(err, console.ErrListen) {
			a.note("%v; `up` goes on without it (--console)", err)
			<-ctx.Done()
			return nil
		}
		return err
	}
	s.ready = func() error { return nil }
	return s, nil
}

// share is what each of the large streams may take of the whole store; 0: the default.
func share(maxStore byteSize) int64 { return int64(maxStore) / 4 }

// announce waits until the built-in tools can be called, says what to try, and stays until ctx ends.
func (a *app) announce(ctx context.Context, c *agent.Client, d service, names []string, in *inside, f upFlags, begin time.Time) error {
	if err := a.applyAtStart(ctx, c, d, f.config); err != nil {
		return err
	}
	for _, name := range names {
		if err := awaitTool(ctx, c, d, name); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	if f.config != nil {
		a.noteMisfits(ctx, c)
	}
	url := in.srv.URL()
	forget, err := a.writeLocal(local{URL: url, PID: os.Getpid()})
	if err != nil {
		return err
	}
	defer forget()
	a.print("%s in %d ms: %s, data in %s\n\n", a.paint(green, "ready"), time.Since(begin).Milliseconds(), url, f.store)
	a.suggest(url, in.keys)
	a.offer(ctx, in.page)
	<-ctx.Done()
	a.note("stopping: running calls may end; again to stop at once")
	return nil
}

// offer says where the web page is, once it is served.
func (a *app) offer(ctx context.Context, page *console.Console) {
	if page == nil {
		return
	}
	select {
	case <-page.Serving():
		a.print("\nCalls that wait for people: %s\n", page.URL())
	case <-ctx.Done():
	case <-time.After(time.Second): // its address is taken, and that was said
	}
}

// suggest says what to try in another terminal.
func (a *app) suggest(url string, keys *auth.Dir) {
	a.print("Try, in another terminal:\n")
	nats := "nats --server " + url
	if keys != nil {
		a.print("  export TOOLWIRE_CREDS=%s   # or others, by `toolwire auth add`\n", localCreds(keys))
		nats += " --creds \"$TOOLWIRE_CREDS\""
	}
	if ca := a.conn.tls.ca; ca != "" {
		a.print("  export TOOLWIRE_TLS_CA=%s TOOLWIRE_TLS_CERT=… TOOLWIRE_TLS_KEY=…   # a certificate of yours\n", ca)
	} else if a.conn.tls.cert != "" {
		a.print("  export TOOLWIRE_TLS_CA=…   # whose certificate %s is, unless this machine trusts it\n", a.conn.tls.cert)
	}
	a.print("  toolwire call get_current_time '{\"timezone\":\"Europe/Berlin\"}'\n")
	a.print("  %s sub --count 1 'toolwire.live.result.>'   # results, as any NATS client sees them\n", nats)
}

// localCreds is the credentials file that the first start made, if that is still there.
func localCreds(keys *auth.Dir) string {
	file := keys.CredsFile(auth.LocalOperator)
	if _, err := os.Stat(file); err != nil {
		return "…"
	}
	if full, err := filepath.Abs(file); err == nil {
		return full
	}
	return file
}

// applyAtStart applies the configuration of `up -f` as soon as the dispatcher answers. Who gave the file
// wants it in force, so nobody is asked.
func (a *app) applyAtStart(ctx context.Context, c *agent.Client, d service, to *toolkit.Config) error {
	if to == nil || !awaitReady(ctx, d) {
		return nil
	}
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		changes, revision, err := plan(ctx, c, *to)
		if err == nil && len(changes) > 0 {
			_, err = replaceConfig(ctx, c, revision, *to)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			a.printPlan(changes)
			return nil
		case !errors.Is(err, agent.ErrUnavailable) && !errors.Is(err, agent.ErrConflict):
			return fmt.Errorf("configuration: %w", err)
		}
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
}

// after starts a worker when the dispatcher is ready to hear its announcement, which would be
// repeated only after seconds; and its consumer, made by the connection of the dispatcher, is there when it
// first asks for work.
func (a *app) after(d service, nc *nats.Conn, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if !awaitReady(ctx, d) {
			return nil
		}
		s, err := events.NewSubjects(a.prefix())
		if err != nil {
			return err
		}
		bus, err := jet.NewBus(nc, s)
		if err == nil {
			err = jet.EnsurePool(ctx, bus.JetStream(), bus.Names, builtinName, 0)
		}
		if err != nil {
			return err
		}
		return run(ctx)
	}
}

// awaitReady waits until a service is ready; false if ctx ended before.
func awaitReady(ctx context.Context, s service) bool {
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for s.ready() != nil {
		select {
		case <-ctx.Done():
			return false
		case <-again.C:
		}
	}
	return true
}

// awaitTool waits until a tool is registered and a worker runs it, or ctx ends.
func awaitTool(ctx context.Context, c *agent.Client, d service, name string) error {
	if !awaitReady(ctx, d) {
		return nil
	}
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		t, err := c.Tool(ctx, toolName(name))
		switch {
		case err == nil && t.Info.Workers > 0 || ctx.Err() != nil:
			return nil
		case err == nil, errors.Is(err, agent.ErrNotFound), errors.Is(err, agent.ErrUnavailable):
		default:
			return fmt.Errorf("tool %s: %w", name, err)
		}
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
}
