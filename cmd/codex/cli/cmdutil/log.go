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

// logLevel is the level of all loggers of NewLogger. A program has one.
var logLevel slog.LevelVar

// SetLogLevel sets the level of loggers of NewLogger to that of the flags.
func SetLogLevel(c *cli.Context) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return Usagef("--log-level (or CODEX_LOG) must be debug, info, warn or error, not %q", c.String("log-level"))
	}
	logLevel.Set(level)
	return nil
}

// NewLogger returns the logger that the flags describe.
func NewLogger(c *cli.Context, to io.Writer) (*slog.Logger, error) {
	if err := SetLogLevel(c); err != nil {
		return nil, err
	}
	opts := &slog.HandlerOptions{Level: &logLevel}
	newHandler := func(to io.Writer) slog.Handler { return slog.NewTextHandler(to, opts) }
	switch c.String("log-format") {
	case "text":
	case "json":
		newHandler = func(to io.Writer) slog.Handler { return slog.NewJSONHandler(to, opts) }
	default:
		return nil, Usagef("--log-format must be text or json, not %q", c.String("log-format"))
	}
	if isJournal(to) {
		return slog.New(newJournalHandler(to, newHandler)), nil
	}
	return slog.New(newHandler(to)), nil
}
