package cmdutil

import (
	"io"
	"log/slog"

	"github.com/urfave/cli/v2"
)

// LogFlags returns the options for the log of commands that keep running.
func LogFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "log-level", EnvVars: []string{"CODEX_LOG"}, Value: "info", Usage: "log messages of `LEVEL` and above: debug, info, warn or error"},
		&cli.StringFlag{Name: "log-format", Value: "text", Usage: "write log messages as `FORMAT`: text or json"},
	}
}

// NewLogger returns the logger that the flags describe.
func NewLogger(c *cli.Context, to io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return nil, Usagef("--log-level (or CODEX_LOG) must be debug, info, warn or error, not %q", c.String("log-level"))
	}
	opts := &slog.HandlerOptions{Level: level}
	switch c.String("log-format") {
	case "text":
		return slog.New(slog.NewTextHandler(to, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(to, opts)), nil
	default:
		return nil, Usagef("--log-format must be text or json, not %q", c.String("log-format"))
	}
}
