package remote

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"sync"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// routineLine matches lines of a server's log, as text or JSON, below the level of warnings.
var routineLine = regexp.MustCompile(`^(time=\S+ level=(DEBUG|INFO)[ +-]|\{"time":"[^"]*","level":"(DEBUG|INFO)[+"-])`)

// verboseFlag returns the flag that prints the state of the connection, and the log of a server that codex starts.
func verboseFlag() cli.Flag {
	return &cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "print when connections are made, and the log of a server that an environment's program starts"}
}

// quietFlag returns the flag that suppresses notes. It suppresses no results, errors or warnings.
func quietFlag() cli.Flag {
	return &cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "show errors and warnings only: no progress and no notes"}
}

func isVerbose(c *cli.Context) bool { return hasSwitch(c, "verbose") }

func isQuiet(c *cli.Context) bool { return hasSwitch(c, "quiet") }

// hasSwitch reports whether a switch was given after the command or before it.
func hasSwitch(c *cli.Context, name string) bool {
	return slices.ContainsFunc(c.Lineage(), func(at *cli.Context) bool { return at.Bool(name) })
}

// unlessQuiet returns stream. If --quiet was given, it returns a writer that discards its input.
func unlessQuiet(c *cli.Context, stream io.Writer) io.Writer {
	if isQuiet(c) {
		return io.Discard
	}
	return stream
}

// childStderr returns the writer for the standard error of an environment's program. If the program
// starts a server, the server's log appears there, between the output of commands. Most of its
// lines report normal operation, and are dropped without --verbose. Warnings, and the messages of
// ssh and shells, are printed.
func childStderr(c *cli.Context) io.Writer {
	stream := cmdutil.ChildStderr(c.App.ErrWriter)
	if isVerbose(c) {
		return stream
	}
	return &logFilter{to: stream}
}

// logFilter passes lines on, except routine lines of a server's log. Several goroutines may use it.
type logFilter struct {
	to io.Writer

	mu   sync.Mutex
	line []byte // the beginning of a line that is not classified yet
	rest fate   // what happens with the rest of a classified line
}

// fate says what happens with the rest of a line: unknown, passed on or dropped.
type fate int

const (
	unknown fate = iota
	shown
	leftOut
)

// Write passes a line on as soon as it cannot be a line of the log, because it may be a question
// without a line break.
func (f *logFilter) Write(text []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for piece := range bytes.Lines(text) {
		whole := piece[len(piece)-1] == '\n'
		if f.rest == unknown {
			f.line = append(f.line, piece...)
			if !whole && len(f.line) < maxLogStart && mayBeLog(f.line) {
				continue
			}
			piece, f.line = f.line, nil
			f.rest = shown
			if routineLine.Match(piece) {
				f.rest = leftOut
			}
		}
		if f.rest == shown {
			if _, err := f.to.Write(piece); err != nil {
				return 0, err
			}
		}
		if whole {
			f.rest = unknown
		}
	}
	return len(text), nil
}

// mayBeLog reports whether a line with this beginning may be a line of a server's log.
func mayBeLog(line []byte) bool {
	for _, start := range []string{"time=", `{"time":`} {
		if n := min(len(line), len(start)); string(line[:n]) == start[:n] {
			return true
		}
	}
	return false
}
