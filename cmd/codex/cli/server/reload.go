package server

import (
	"errors"
	"log/slog"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/execserver/audit"
	"codex.internal/pkg/execserver/observe"
	"github.com/urfave/cli/v2"
)

// newReloader returns what reads the options of a server and its egress policy again.
func newReloader(start *cmdutil.Options, srv *execserver.Server, log *slog.Logger) *cmdutil.Reloader {
	return &cmdutil.Reloader{
		Start: start, Flags: serverFlags, File: optionsFile, Log: log,
		Can: func(option string) bool {
			return option == "log-level" || option == "egress-policy" || strings.HasPrefix(option, "limit-")
		},
		Apply: func(c *cli.Context) error {
			rules, err := readRules(c)
			if err == nil {
				err = cmdutil.SetLogLevel(c)
			}
			if err == nil {
				srv.SetRules(rules)
			}
			return err
		},
	}
}

// rotate begins a new file of the audit trail, which may be nil.
func rotate(trail *observe.Audit, log *slog.Logger) {
	if trail == nil {
		return
	}
	if err := trail.Log.Rotate(); err != nil && !errors.Is(err, audit.ErrClosed) {
		log.Error("no other file of the audit trail can be begun", "error", err)
	}
}
