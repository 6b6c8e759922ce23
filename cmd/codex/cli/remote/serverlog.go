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

// routineLine is a line of a server's log, as text or JSON, that nobody has to read:
// records below warnings.
var routineLine = regexp.MustCompile(`^(time=\S+ level=(DEBUG|INFO)[ +-]|\{"time":"[^"]*","level":"(DEBUG|INFO)[+"-])`)

// verboseFlag shows the connection, and the log of a server that codex starts.
func verboseFlag() cli.Flag {
	return &cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "tell of the connection, and show the log of a server that an environment's program starts"}
}

// quietFlag leaves out what is neither a result nor an error nor a warning.
func quietFlag() cli.Flag {
	return &cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "show errors and warnings only: no progress and no notes"}
}

func isVerbose(c *cli.Context) bool { return hasSwitch(c, "verbose") }

func isQuiet(c *cli.Context) bool { return hasSwitch(c, "quiet") }

// hasSwitch reports whether a switch was given, behind the command or before it.
func hasSwitch(c *cli.Context, name string) bool {
	return slices.ContainsFunc(c.Lineage(), func(at *cli.Context) bool { return at.Bool(name) })
}

// unlessQuiet returns where notes go: to a stream, or nowhere.
func unlessQuiet(c *cli.Context, stream io.Writer) io.Writer {
	if isQuiet(c) {
		return io.Discard
	}
	return stream
}

// childStderr is where the messages of an environment's program go. The log of a server
// that it leads to is between the output of commands there, and most of it says that
// everything is as it should be: without --verbose these lines are left out. What ssh
// and shells say, and warnings, are shown.
func childStderr(c *cli.Context) io.Writer {
	stream := cmdutil.ChildStderr(c.App.ErrWriter)
	if isVerbose(c) {
		return stream
	}
	return &logFilter{to: stream}
}

// logFilter passes on the lines that are no routine of a server's log. It may be used by
// several goroutines.
type logFilter struct {
	to io.Writer

	mu   sync.Mutex
	line []byte // the beginning of a line of which it is not known what it is
	rest fate   // of the line whose beginning is known
}

// fate is what happens to the rest of a line.
type fate int

const (
	unknown fate = iota
	shown
	leftOut
)

// Write passes the beginning of a line on as soon as it is known not to be one of the
// log: it may be a question without an end of line.
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

// mayBeLog reports whether a line that begins so may be one of a server's log.
func mayBeLog(line []byte) bool {
	for _, start := range []string{"time=", `{"time":`} {
		if n := min(len(line), len(start)); string(line[:n]) == start[:n] {
			return true
		}
	}
	return false
}
