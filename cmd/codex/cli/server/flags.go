package server

import (
	"slices"
	"strings"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/wire/websocket"
	"github.com/urfave/cli/v2"
)

// probeFlag lets --check-config make a sandbox.
const probeFlag = "probe"

// maxMetricsPrincipals bounds --metrics-principals: each principal has up to ten series.
const maxMetricsPrincipals = 1000

// serverFlags returns the options of a server, in the order of the help.
func serverFlags() []cli.Flag {
	return slices.Concat(
		cmdutil.ConfigOrFileFlags(), listenFlags(), authFlags(), capacityFlags(), detachedFlags(),
		[]cli.Flag{
			&cli.BoolFlag{Name: "exit-on-stdin-close", EnvVars: []string{"CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE"},
				Usage: "exit when stdin is closed, which happens when the parent process ends"},
		},
		sandboxFlags(),
		[]cli.Flag{
			&cli.StringFlag{Name: "metrics-listen", Usage: "serve /metrics, for Prometheus, on `IP:PORT` without authentication; without this option, clients get it on --listen"},
			cmdutil.Count(cli.GenericFlag{Name: "metrics-principals", Usage: "export metrics of each principal (user, token or certificate), for the first `NUMBER` of them; all others are counted together"}, 0, 0, maxMetricsPrincipals),
			&cli.BoolFlag{Name: "trace-commands", Usage: "set TRACEPARENT and TRACESTATE for commands, so that they can continue the trace of their request"},
			cmdutil.HomeFlag(),
			&cli.BoolFlag{Name: "no-cgroups", Usage: "do not make a cgroup for each process"},
		},
		auditFlags(), cmdutil.ServerLimitFlags(), remoteFlags(), cmdutil.LogFlags(), cmdutil.OptionsFileFlags(optionsName),
		[]cli.Flag{&cli.BoolFlag{Name: probeFlag, Usage: "with --check-config: also make a sandbox"}},
	)
}

// listenFlags returns the options for the addresses of a server.
func listenFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "listen", Value: cli.NewStringSlice("ws://127.0.0.1:0"),
			Usage: "listen on `URL`: ws://IP:PORT or wss://IP:PORT (port 0: any free one), unix:///PATH or stdio; may be repeated"},
		&cli.StringFlag{Name: "tls-cert", Usage: "wss: the `FILE` with the certificate and its chain, as PEM"},
		&cli.StringFlag{Name: "tls-key", Usage: "wss: the `FILE` with the certificate's key, as PEM"},
		&cli.StringFlag{Name: "tls-client-ca", Usage: "wss: accept only clients with a certificate of an authority in `FILE`"},
	}
}

// maxClockSkewSeconds bounds --ws-max-clock-skew-seconds, to 34 years, so that the sum of the skew and a token's time does not
// overflow.
const maxClockSkewSeconds = 1 << 30

// authFlags returns the options for the authentication of clients.
func authFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "ws-auth", Usage: "require a bearer token: capability-token or signed-bearer-token (`MODE`)"},
		&cli.StringFlag{Name: "ws-token-file", Usage: "capability-token: absolute path of the `FILE` with the token; it is read again when it changes"},
		&cli.StringFlag{Name: "ws-token-sha256", Usage: "capability-token: SHA-256 of the token in `HEX`"},
		&cli.StringFlag{Name: "ws-tokens", Usage: "capability-token: absolute path of the `FILE` with tokens that have roles"},
		&cli.StringFlag{Name: "ws-shared-secret-file", Usage: "signed-bearer-token: absolute path of the `FILE` with the HS256 secret"},
		&cli.StringFlag{Name: "ws-issuer", Usage: "signed-bearer-token: the `ISSUER` that tokens must name"},
		&cli.StringFlag{Name: "ws-audience", Usage: "signed-bearer-token: the `AUDIENCE` that tokens must name"},
		cmdutil.Count(cli.GenericFlag{Name: "ws-max-clock-skew-seconds", Usage: "signed-bearer-token: how far clocks may differ, in `SECONDS`"},
			int64(wsauth.DefaultClockSkew/time.Second), 0, maxClockSkewSeconds),
		&cli.BoolFlag{Name: "allow-unauthenticated-bind", Usage: "accept clients without authentication on an address that is not loopback"},
	}
}

// capacityFlags returns the options that bound connections, sessions and requests.
func capacityFlags() []cli.Flag {
	return []cli.Flag{
		cmdutil.Duration(cli.GenericFlag{Name: "session-ttl", Usage: "how long the session of a lost connection can be resumed (`DURATION`); 0: it ends with the connection"},
			execserver.DefaultSessionTTL, 0),
		cmdutil.Count(cli.GenericFlag{Name: "max-connections", Usage: "accept at most `NUMBER` connections at a time"}, execserver.DefaultMaxConnections, 1, cmdutil.NoMost),
		cmdutil.Count(cli.GenericFlag{Name: "max-processes", Usage: "run at most `NUMBER` processes of a session at a time"}, execserver.DefaultMaxProcesses, 1, cmdutil.NoMost),
		cmdutil.Count(cli.GenericFlag{Name: "max-handles", Usage: "keep at most `NUMBER` file handles of a connection open, and as many atomic writes of a session"}, execserver.DefaultMaxHandles, 1, cmdutil.NoMost),
		cmdutil.Count(cli.GenericFlag{Name: "max-message-bytes", Usage: "accept websocket messages of at most `BYTES`"}, websocket.DefaultMaxMessage, 1, cmdutil.NoMost),
		cmdutil.Count(cli.GenericFlag{Name: "concurrent-requests", Usage: "work on at most `NUMBER` requests of a connection at a time"}, execserver.DefaultConcurrentRequests, 1, cmdutil.NoMost),
	}
}

// detachedFlags returns the options for detached processes and their output.
func detachedFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "retain-dir", Usage: "store the output of detached processes in `DIR`; none: start no detached processes", DefaultText: "below $XDG_STATE_HOME/codex/detached"},
		cmdutil.Count(cli.GenericFlag{Name: "retain-bytes", Usage: "retain at most `BYTES` of the output of all detached processes together"},
			execserver.DefaultRetainBytes, execserver.DefaultRetain, cmdutil.NoMost),
		cmdutil.Duration(cli.GenericFlag{Name: "retain-for", Usage: "retain output for at most `DURATION` after a detached process has ended"},
			execserver.DefaultRetainFor, time.Second),
		cmdutil.Count(cli.GenericFlag{Name: "max-detached", Usage: "keep at most `NUMBER` detached processes of an owner, including ended ones whose output is retained"}, execserver.DefaultMaxDetached, 1, cmdutil.NoMost),
	}
}

// transparentTCPFlag returns an option of Codex CLI that is accepted and changes nothing: every command whose only network is
// its network proxy reaches hosts by programs that know no proxy (docs/spec/network.md §5).
func transparentTCPFlag() cli.Flag {
	return &cli.BoolFlag{Name: "linux-sandbox-transparent-tcp", Usage: "accepted, as by Codex CLI; has no effect, because this server always does it"}
}

// tcpUpstreamFlag is the option for a mandatory upstream proxy of SOCKS5 connections.
const tcpUpstreamFlag = "tcp-upstream-proxy"

// sandboxFlags returns the options for sandboxes and network proxies of commands.
func sandboxFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "sandbox-backend", Value: runner.Backends[0], Usage: "the sandbox backend: " + strings.Join(runner.Backends, ", ") + " (`NAME`)"},
		&cli.BoolFlag{Name: "proxy-private-ips-via-upstream", EnvVars: []string{"CODEX_EXEC_SERVER_PROXY_PRIVATE_IPS_VIA_UPSTREAM"},
			Usage: "let network proxies of processes reach private addresses through the proxy that HTTP_PROXY and similar variables name"},
		&cli.StringFlag{Name: tcpUpstreamFlag, Usage: "connect SOCKS5 connections of processes through the HTTP proxy at `HOST:PORT` only"},
		&cli.StringFlag{Name: "egress-policy", Usage: "let network proxies of processes reach only the hosts that the TOML `FILE` allows"},
		&cli.StringFlag{Name: "linux-sandbox-pid-namespace", Value: pidNamespaceIsolate,
			Usage: "PID namespace of sandboxed commands (`MODE`): of Codex CLI's two modes only isolate is supported"},
		transparentTCPFlag(),
		&cli.BoolFlag{Name: "require-sandbox", Usage: "report at /readyz that the server is not ready if commands cannot be confined"},
		&cli.BoolFlag{Name: "sandbox-stricter", Usage: "where Landlock cannot enforce a policy exactly, enforce a stricter one instead of refusing"},
		&cli.BoolFlag{Name: "allow-unconfined-readers", Usage: "let tokens with the role read access files without a sandbox if this machine supports none"},
		&cli.BoolFlag{Name: "sandbox-no-local-sockets", Usage: "let commands without a network create socket pairs only, as in Codex CLI"},
	}
}
