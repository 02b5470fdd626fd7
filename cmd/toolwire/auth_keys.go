package main

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/internal/auth"
	"github.com/toolwire/toolwire/internal/jet"
)

// authDir is where keys and credentials are.
func (a *app) authDir(flag string) (string, error) {
	if dir := a.setting(flag, "TOOLWIRE_AUTH_DIR"); dir != "" {
		return dir, nil
	}
	dir, err := a.stateDir()
	return filepath.Join(dir, "auth"), err
}

func (a *app) openAuth(flag string) (*auth.Dir, error) {
	dir, err := a.authDir(flag)
	if err != nil {
		return nil, err
	}
	return auth.Open(dir)
}

func dirFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", "", "`directory` of keys and credentials (TOOLWIRE_AUTH_DIR; default: toolwire/auth in the state directory of the user)")
	_ = cmd.MarkFlagDirname("dir")
}

func (a *app) authInitCommand() *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use: "init", Short: "Make the keys that credentials of an installation are signed with",
		Long: "Makes a directory with the keys of an installation, and nats-server.conf for a NATS server's configuration:\n" +
			"`include \"…/nats-server.conf\"`. The server then knows the rights of each role, and takes credentials that\n" +
			"`toolwire auth add` makes, no others. `toolwire up --auth` does this by itself at its first start.\n\n" +
			"Whoever reads the keys in it may do everything: keep it where credentials are made, and nowhere else.\n" +
			"Keys are never replaced and never printed.",
		Example: "  toolwire auth init\n  toolwire auth init --dir /etc/toolwire/auth --prefix acme",
		Args:    args(0, 0),
		RunE:    func(*cobra.Command, []string) error { return a.authInit(dir) },
	}
	dirFlag(cmd, &dir)
	return cmd
}

func (a *app) authInit(flag string) error {
	path, err := a.authDir(flag)
	if err != nil {
		return err
	}
	n, err := a.names()
	if err != nil {
		return err
	}
	d, err := auth.Init(path, n)
	if err != nil {
		return err
	}
	a.print("keys in %s\nfor a NATS server: %s\n", d.Path(), d.Conf())
	return nil
}

func (a *app) authAddCommand() *cobra.Command {
	dir, out, pools, good := "", "", []string(nil), ttl(0)
	cmd := &cobra.Command{
		Use: "add <role> <name>", Short: "Make a credentials file for an agent, an approver, an operator, a worker or a dispatcher",
		Long: "Writes credentials for --creds, for TOOLWIRE_CREDS, and for any NATS client. They have the rights of the\n" +
			"role under this name, and no others; `toolwire auth show` prints them. The name is the identity of an agent,\n" +
			"approver or operator, or that of a worker program: letters, digits, '-' and '_'.\n\n" +
			"An operator needs to be known to the dispatchers, too: `toolwire dispatcher --operators`.",
		Example: "  toolwire auth add agent planner --ttl 90d\n  toolwire auth add approver anna\n  toolwire auth add worker shop --pool shop --pool lane-narrow",
		Args:    args(2, 2), ValidArgs: roleWords(),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.authAdd(dir, out, jet.Role(args[0]), args[1], pools, time.Duration(good))
		},
	}
	dirFlag(cmd, &dir)
	cmd.Flags().StringSliceVar(&pools, "pool", nil, "`pools` and lanes whose work a worker takes (default: its name)")
	cmd.Flags().Var(&good, "ttl", "how long it is good, such as 12h or 30d (default: until `toolwire auth rm`)")
	cmd.Flags().StringVar(&out, "out", "", "`file` to write, never one that is there; - prints the secret (default: creds/<name>.creds in the directory)")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) authAdd(dir, out string, role jet.Role, name string, pools []string, good time.Duration) error {
	if len(pools) > 0 && role != jet.RoleWorker {
		return usagef("--pool is for workers, a role %s takes no work", role)
	}
	d, err := a.openAuth(dir)
	if err != nil {
		return err
	}
	if out == "" {
		out = d.CredsFile(name)
	}
	save := auth.SaveTo(out)
	if out == "-" {
		save = func(creds []byte) error { _, err := a.out.Write(creds); return err }
	}
	u, err := d.Add(role, name, pools, good, save)
	if err != nil {
		return err
	}
	switch {
	case out == "-":
	case a.json:
		if err := a.printJSON(struct {
			auth.User
			File string `json:"file"`
		}{u, out}); err != nil {
			return err
		}
	default:
		a.print("%s\n", out)
		a.note("for the %s %s, %s; whoever has the file is %s", u.Role, u.Name, goodUntil(u), u.Name)
	}
	if role == jet.RoleOperator {
		a.note("give the dispatchers --operators %s,%s; `toolwire up --auth` knows it when it starts next", auth.LocalOperator, name)
	}
	return nil
}

func goodUntil(u auth.User) string {
	if u.Expires.IsZero() {
		return "good until `toolwire auth rm`"
	}
	return "good until " + u.Expires.Format(time.RFC3339)
}

func (a *app) authLsCommand() *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use: "ls", Short: "List who has been given credentials",
		Long:    "Lists the names, roles and pools for which credentials were made, and until when they are good.",
		Example: "  toolwire auth ls\n  toolwire auth ls --json",
		Args:    args(0, 0),
		RunE:    func(*cobra.Command, []string) error { return a.authLs(dir) },
	}
	dirFlag(cmd, &dir)
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) authLs(dir string) error {
	d, err := a.openAuth(dir)
	if err != nil {
		return err
	}
	all, err := d.Users()
	switch {
	case err != nil:
		return err
	case a.json:
		return a.printJSON(append([]auth.User{}, all...))
	case len(all) == 0:
		a.note("nobody yet; make credentials with `toolwire auth add`")
		return nil
	}
	rows := make([][]string, len(all))
	for i, u := range all {
		until := "-"
		if !u.Expires.IsZero() {
			until = u.Expires.Format(time.RFC3339)
		}
		rows[i] = []string{u.Name, string(u.Role), strings.Join(u.Pools, ","), until}
	}
	a.table([]string{"NAME", "ROLE", "POOLS", "UNTIL"}, rows)
	return nil
}

func (a *app) authRmCommand() *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use: "rm <name>", Short: "End a credential",
		Long: "Ends the credential of a name: a server that has read the directory since refuses it. Restart `toolwire up`\n" +
			"or `toolwire server`; a NATS server reads it with `nats-server --signal reload`. The name is free for another.",
		Example: "  toolwire auth rm planner",
		Args:    args(1, 1),
		RunE:    func(_ *cobra.Command, args []string) error { return a.authRm(dir, args[0]) },
	}
	dirFlag(cmd, &dir)
	return cmd
}

func (a *app) authRm(dir, name string) error {
	d, err := a.openAuth(dir)
	if err != nil {
		return err
	}
	u, err := d.Remove(name)
	if err != nil {
		return err
	}
	a.note("the credential of the %s %s is ended; restart `toolwire up` or `toolwire server`, or have the NATS server reload %s", u.Role, u.Name, d.Conf())
	return nil
}
