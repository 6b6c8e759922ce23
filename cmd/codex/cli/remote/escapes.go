package remote

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
)

// errDisconnected ends a command whose user typed ~. behind an end of line.
var errDisconnected = errors.New("the connection was closed by ~.; the command ends a while later")

// escapeHelp is shown for ~?.
const escapeHelp = "\r\n~.  close the connection\r\n~~  send ~\r\n~?  this message\r\n(only at the beginning of a line)\r\n"

// escapes finds what the user says to this program and not to the command, as with ssh:
// a tilde at the beginning of a line, and the key behind it.
type escapes struct {
	inLine bool // something was typed since the last end of line
	tilde  bool // the last key was a tilde at the beginning of a line
}

// feed returns which keys are the command's.
func (e *escapes) feed(keys []byte) (own []byte, leave, help bool) {
	own = make([]byte, 0, len(keys)+1)
	for _, key := range keys {
		if e.tilde {
			e.tilde = false
			switch key {
			case '.':
				return own, true, help
			case '?':
				help = true
				continue
			case '~':
			default:
				own = append(own, '~')
			}
		} else if key == '~' && !e.inLine {
			e.tilde = true
			continue
		}
		own = append(own, key)
		e.inLine = key != '\r' && key != '\n'
	}
	return own, false, help
}

// keyInterrupt is Ctrl-C on a terminal whose keys all come to this program.
const keyInterrupt = 0x03

// pumpKeys writes what is typed to a process's terminal. The end of the input is a key
// there, and so it is not passed on. Keys are read also while the connection takes none:
// then Ctrl-C, and always ~., ends the command here by cancel.
func (a *attempt) pumpKeys(ctx context.Context, p *execclient.Process, cancel context.CancelCauseFunc) {
	waiting := make(chan []byte, keysWaiting)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(waiting)
	wg.Go(func() {
		stdin := p.Stdin(ctx)
		for keys := range waiting {
			if _, err := stdin.Write(keys); err != nil {
				return
			}
		}
	})
	var e escapes
	in := a.feed.in.reader(ctx)
	for {
		buf := make([]byte, keysAtOnce)
		n, err := in.Read(buf)
		keys, leave, help := e.feed(buf[:n])
		if help {
			_, _ = io.WriteString(a.x.screen.out, escapeHelp)
		}
		if leave {
			cancel(&cmdutil.ExitError{Code: cmdutil.ExitUnreachable, Err: errDisconnected})
			return
		}
		if a.x.client.State() != execclient.Connected {
			for _, key := range keys {
				if key == keyInterrupt {
					cancel(cmdutil.Signaled(syscall.SIGINT, errInterrupted))
					return
				}
			}
		}
		if len(keys) > 0 {
			select {
			case waiting <- keys:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}
