package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/host/terminal"
	"codex.internal/pkg/wire/pathuri"
	"golang.org/x/term"
)

// shells are the shells whose syntax exec --shell uses.
var shells = []string{"sh", "bash", "zsh", "dash", "ksh"}

// Each command line runs in a shell of its own, so the session keeps the directory. At its end the
// shell reports its directory, whether cd, pushd or a function has changed it. It uses the sequence
// by which shells report their directory to terminals (OSC 7), with a secret word. cwdFilter
// removes the report from the output. A shell that is killed or replaced by exec reports nothing;
// then the directory stays the same.
//
// If a command could read the word in the arguments or the environment of the shell, it could
// report a directory of its choice. So the shell reads the word from its terminal, as the first
// line, before any command runs. It stores the word in the trap and in no variable, because set -a
// would export a variable to commands. The terminal may echo the line, and cwdFilter removes the
// echo, too.
const (
	reportScript = `IFS= read -r codex_word && trap 'printf "\033]7;'"$codex_word"';%s\007" "$PWD"' EXIT && unset codex_word; eval "$1"`
	reportBegin  = "\x1b]7;%s;"
	reportEnd    = '\a'
)

// interact runs the command lines that the user types, and returns the exit code of the last
// one.
func (x *remoteExec) interact(ctx context.Context) (int, error) {
	if !slices.Contains(shells, x.shell.Name) {
		return 0, fmt.Errorf("--shell needs a shell of the kind of sh on the server; it has %s", x.shell.Path)
	}
	x.tty = true
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	editor := term.NewTerminal(lineInput{x.input.reader(ctx), x.s.RawOut}, "")
	cwd, code := x.cwd, 0
	for {
		line, err := x.readLine(ctx, cancel, editor, cwd)
		switch {
		case errors.Is(err, io.EOF):
			return code, nil
		case err != nil:
			return 0, cause(ctx, fmt.Errorf("read a command line: %w", err))
		case utf8.RuneCountInString(line) >= maxLine:
			fmt.Fprintf(x.s.Err, "codex: the line is longer than %d characters; it was not run\n", maxLine-1)
			continue
		}
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if last, ok := exitLine(line, code); ok {
			return last, nil
		}
		if code, err = x.runLine(ctx, line, &cwd); err != nil {
			if x.client.Err() != nil || ctx.Err() != nil {
				return 0, err
			}
			cmdutil.Messagef(x.s.Err, "codex: %v\n", err)
			code = cmdutil.ExitCode(ourFailure(err))
		}
	}
}

// readLine reads a command line from the terminal, which is in raw mode meanwhile. A signal or a
// lost connection calls cancel, which ends the session.
func (x *remoteExec) readLine(ctx context.Context, cancel context.CancelCauseFunc, editor *term.Terminal, cwd string) (string, error) {
	defer x.screen.makeRaw()()
	defer x.link.divert(editor)()
	read, done := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer done()
	wg.Go(func() {
		select {
		case sig := <-x.signals:
			cancel(&cmdutil.ExitError{Code: cmdutil.ExitInterrupted, Err: fmt.Errorf("ended by a signal: %v", sig)})
		case <-x.client.Done():
			cancel(&cmdutil.ExitError{Code: cmdutil.ExitUnreachable, Err: x.client.Err()})
		case <-read.Done():
		}
	})
	if size := x.screen.size(); size != nil {
		_ = editor.SetSize(int(size.Cols), int(size.Rows))
	}
	dir, err := pathuri.Parse(cwd, "")
	if err != nil {
		dir = cwd
	}
	editor.SetPrompt(fmt.Sprintf("%s:%s (%s)> ", terminal.Text(x.environment), terminal.Text(dir), x.policy.Name()))
	return editor.ReadLine()
}

// runLine runs a command line in a shell on the server.
func (x *remoteExec) runLine(ctx context.Context, line string, cwd *string) (int, error) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	word := hex.EncodeToString(random[:])
	filter := &cwdFilter{to: x.s.RawOut, begin: fmt.Appendf(nil, reportBegin, word), echo: []byte(word + "\r\n")}
	code, err := x.do(ctx, job{
		argv:  []string{x.shell.Path, "-c", reportScript, x.shell.Path, line},
		asked: []string{x.shell.Path, "-c", line}, cwd: *cwd, out: filter, secret: word + "\n",
	})
	if err == nil {
		err = filter.flush()
	}
	if strings.HasPrefix(filter.dir, "/") {
		*cwd = pathuri.Format(filter.dir)
	}
	return code, err
}

// exitLine reports whether a line ends the session, and returns the exit code.
func exitLine(line string, last int) (code int, ok bool) {
	words := strings.Fields(line)
	if words[0] != "exit" || len(words) > 2 {
		return 0, false
	}
	if len(words) == 1 {
		return last, true
	}
	code, err := strconv.Atoi(words[1])
	return code & 0xff, err == nil
}

// lineInput is the input of the line editor. The editor would treat Ctrl-C as the end of the input.
// lineInput replaces it by keys that clear the line.
type lineInput struct {
	io.Reader
	io.Writer
}

func (l lineInput) Read(b []byte) (int, error) {
	// Each Ctrl-C becomes two keys.
	raw := make([]byte, max(1, len(b)/2))
	n, err := l.Reader.Read(raw)
	const end, clear = 0x05, 0x15 // Ctrl-E, Ctrl-U
	return copy(b, bytes.ReplaceAll(raw[:n], []byte{0x03}, []byte{end, clear})), err
}

// cwdFilter removes the shell's report of its directory from the output.
type cwdFilter struct {
	to    io.Writer
	begin []byte
	echo  []byte // the terminal's echo of the secret word
	held  []byte // a possible beginning of a report
	dir   string // the last reported directory
}

func (f *cwdFilter) Write(b []byte) (int, error) {
	f.held = append(f.held, b...)
	for {
		at := bytes.Index(f.held, f.begin)
		if shown := bytes.Index(f.held, f.echo); len(f.echo) > 0 && shown >= 0 && (at < 0 || shown < at) {
			if err := f.pass(shown); err != nil {
				return 0, err
			}
			f.held = f.held[len(f.echo):]
			continue
		}
		if at < 0 {
			return len(b), f.pass(len(f.held) - max(partial(f.held, f.begin), partial(f.held, f.echo)))
		}
		if err := f.pass(at); err != nil {
			return 0, err
		}
		rest := f.held[len(f.begin):]
		end := bytes.IndexByte(rest, reportEnd)
		switch {
		case end > maxMarker || end < 0 && len(rest) > maxMarker:
			// No directory is that long, so this is output.
			if err := f.pass(len(f.begin)); err != nil {
				return 0, err
			}
		case end < 0:
			return len(b), nil
		default:
			f.dir = string(rest[:end])
			f.held = rest[end+1:]
		}
	}
}

// pass writes the first n held bytes.
func (f *cwdFilter) pass(n int) error {
	if n == 0 {
		return nil
	}
	_, err := f.to.Write(f.held[:n])
	f.held = f.held[n:]
	return err
}

// flush writes all held bytes at the end of the output.
func (f *cwdFilter) flush() error { return f.pass(len(f.held)) }

// partial returns how many bytes at the end of b may be the beginning of what.
func partial(b, what []byte) int {
	for n := min(len(b), len(what)-1); n > 0; n-- {
		if bytes.Equal(b[len(b)-n:], what[:n]) {
			return n
		}
	}
	return 0
}
