package rendezvous

import (
	"fmt"
	"log/slog"
	"os"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/rendezvous/natsbus"
	"github.com/urfave/cli/v2"
)

// natsVariable is a variable for URLs with a password: other users could read a password on the command line.
const natsVariable = "CODEX_RENDEZVOUS_NATS_URL"

func natsFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "nats", Usage: "be one service with other nodes by NATS with JetStream at `URL`[,URL...]; put a URL with a password into " + natsVariable},
		&cli.StringFlag{Name: "nats-creds", Usage: "the `FILE` with credentials for NATS"},
		&cli.StringFlag{Name: "nats-ca", Usage: "accept servers of NATS with a certificate of an authority in `FILE`, as PEM"},
		&cli.BoolFlag{Name: "allow-plaintext-nats", Usage: "connect without TLS to servers of NATS that are not on this machine"},
		cmdutil.Count(cli.GenericFlag{Name: "nats-replicas", Usage: "store the state on `N` servers of NATS, 1 to 5", DefaultText: "3 in a cluster of as many, else 1"},
			0, 1, maxReplicas),
	}
}

// maxReplicas is the largest number of replicas that JetStream supports.
const maxReplicas = 5

// natsOptions returns the options for NATS from the flags and the environment. It returns nil if NATS is not used.
func natsOptions(c *cli.Context, log *slog.Logger) (*natsbus.Options, error) {
	servers, err := cmdutil.FlagValue(c, "nats")
	if err != nil {
		return nil, err
	}
	if natsbus.HasSecret(servers) {
		return nil, cmdutil.Usagef("--nats: other users of this machine can see a user or a password in a command line; set %s instead, or use --nats-creds", natsVariable)
	}
	if servers == "" {
		servers = os.Getenv(natsVariable)
	}
	o := &natsbus.Options{Servers: servers, Credentials: c.String("nats-creds"), CA: c.String("nats-ca"), Replicas: c.Int("nats-replicas"), AllowPlaintext: c.Bool("allow-plaintext-nats"), Logger: log}
	switch {
	case servers == "":
		for _, name := range []string{"nats-creds", "nats-ca", "nats-replicas", "allow-plaintext-nats"} {
			if c.IsSet(name) {
				return nil, cmdutil.Usagef("--%s needs --nats", name)
			}
		}
		return nil, nil
	case c.String("state") != "":
		return nil, cmdutil.Usagef("--state and --nats exclude each other: with --nats the state is stored in NATS")
	}
	for _, file := range []struct{ flag, path string }{{"nats-creds", o.Credentials}, {"nats-ca", o.CA}} {
		if file.path == "" {
			continue
		}
		if _, err := os.Stat(file.path); err != nil {
			return nil, fmt.Errorf("--%s: %w", file.flag, err)
		}
	}
	return o, nil
}
