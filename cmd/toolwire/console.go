package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/internal/console"
	"github.com/toolwire/toolwire/internal/jet"
)

// consoleFlags say where the web page is served, and to whom.
type consoleFlags struct {
	addr      string
	tokenFile string
	hosts     []string
}

func (f *consoleFlags) register(cmd *cobra.Command, what string) {
	p := cmd.Flags()
	p.StringVar(&f.addr, "console", console.DefaultAddr, what)
	p.StringVar(&f.tokenFile, "console-token-file", "", "`file` with the token that a browser has to bring (TOOLWIRE_CONSOLE_TOKEN has it itself; default: a new one at each start)")
	p.StringSliceVar(&f.hosts, "console-host", nil, "`names` under which the page is reached, beside its address")
}

func (a *app) consoleCommand() *cobra.Command {
	var f consoleFlags
	var join joinFlags
	cmd := &cobra.Command{
		Use: "console", Short: "Serve the web page on which people answer the calls that wait for them",
		Long: "Joins a NATS server and serves a web page: what is asked, all that is to be known of it, and the\n" +
			"answer. It prints the address to open; the token in it is the key, so keep it to yourself.\n\n" +
			"Answers are given under one name, as with `toolwire approvals`: --actor, TOOLWIRE_ACTOR, or your\n" +
			"user name. Each person runs a console of his own, or has one run for him.\n\n" +
			"The page speaks plain HTTP and listens on this machine only. To reach it from elsewhere, put a proxy\n" +
			"with TLS before it, and name its host with --console-host.",
		Example: "  toolwire console\n  toolwire console --actor alice --console 127.0.0.1:0\n" +
			"  toolwire console --creds alice.creds --console-token-file token --console-host approvals.example",
		GroupID: "run", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.console(cmd.Context(), f, join) },
	}
	f.register(cmd, "`address` of the page, port 0: any free one")
	cmd.Flags().StringVar(&a.actor, "actor", "", "`who` answers (TOOLWIRE_ACTOR; default: your user name)")
	join.register(cmd)
	return cmd
}

func (a *app) console(ctx context.Context, f consoleFlags, join joinFlags) error {
	return a.join(ctx, "console", join, func(l *jet.Link, log zerolog.Logger) (service, error) { //nolint:contextcheck // a client lives until it is closed
		if err := a.mustHold(jet.RoleApprover, jet.RoleOperator); err != nil {
			return service{}, err
		}
		a.answers = true
		actor, err := a.identity()
		if err != nil {
			return service{}, err
		}
		if err := a.namesPerson(string(actor)); err != nil {
			return service{}, err
		}
		c, err := agent.New(l.Conn, agent.Config{Agent: actor, Prefix: a.prefix(), Logger: log})
		if err != nil {
			return service{}, err
		}
		page, err := a.newConsole(c, f, string(actor), log)
		if err != nil {
			c.Close()
			return service{}, err
		}
		return consoleService(page, c, func() { a.print("Open %s\n", page.URL()) }), nil
	})
}

// namesPerson refuses a console in the name of agents that nobody chose: nobody may answer for calls of his own.
func (a *app) namesPerson(actor string) error {
	chosen := a.setting(a.actor, "TOOLWIRE_ACTOR") != "" || a.conn.agent != "" || a.held.Name != ""
	if chosen || actor != "" && actor != string(agent.DefaultAgent) {
		return nil
	}
	return usagef("who answers? give a name with --actor: %q is that of agents, and nobody answers for calls of his own", agent.DefaultAgent)
}

// newConsole makes the page of a client.
func (a *app) newConsole(c *agent.Client, f consoleFlags, actor string, log zerolog.Logger) (*console.Console, error) {
	token := a.setting("", "TOOLWIRE_CONSOLE_TOKEN")
	if f.tokenFile != "" {
		b, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return nil, usagef("token of the console: %v", err)
		}
		token = strings.TrimSpace(string(b))
	}
	page, err := console.New(c, console.Config{Addr: f.addr, Token: token, Hosts: f.hosts, Actor: actor, Logger: log})
	if errors.Is(err, console.ErrConfig) {
		return nil, usagef("%v", err)
	}
	return page, err
}

// errNotServing is returned when the page is not served yet.
var errNotServing = errors.New("console: not serving yet")

// consoleService runs a page and the client that is its own. opened is called once it is served.
func consoleService(page *console.Console, c *agent.Client, opened func()) service {
	run := func(ctx context.Context) error {
		defer c.Close()
		ctx, cancel := context.WithCancel(ctx)
		told := make(chan struct{})
		defer func() { cancel(); <-told }()
		go func() {
			defer close(told)
			select {
			case <-page.Serving():
				opened()
			case <-ctx.Done():
			}
		}()
		return page.Run(ctx)
	}
	ready := func() error {
		if page.Addr() == "" {
			return errNotServing
		}
		return nil
	}
	return service{"console", run, ready, func() error { return nil }, noFigures{}}
}
