package main

import (
	"runtime/debug"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
)

// build is what the Go toolchain wrote into the binary.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Server   string `json:"natsServer,omitempty"` // embedded
	Client   string `json:"natsClient"`
}

func readBuild() build {
	b := build{Version: "devel", Client: nats.Version}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Go = info.GoVersion
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	for _, m := range info.Deps {
		if m.Path == "github.com/nats-io/nats-server/v2" {
			b.Server = m.Version
		}
	}
	return b
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version of this binary", GroupID: "use", Args: args(0, 0),
		Example: "  toolwire version --json",
		RunE: func(*cobra.Command, []string) error {
			b := readBuild()
			if a.json {
				return a.printJSON(b)
			}
			a.print("toolwire %s", b.Version)
			if b.Revision != "" {
				a.print(" (%.12s)", b.Revision)
			}
			a.print(", %s, nats-server %s\n", b.Go, b.Server)
			return nil
		},
	}
	a.jsonFlag(cmd)
	return cmd
}
