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

// errDisconnected ends a command when its user types ~. at the beginning of a line.
var errDisconnected = errors.New("the connection was closed by ~.; the command ends a while later")

// escapeHelp is printed for ~?.
const escapeHelp = "\r\n~.  close the connection\r\n~~  send ~\r\n~?  this message\r\n(only at the beginning of a line)\r\n"

// escapes finds the keys that are for this program and not for the command, as in ssh: a tilde at
// the beginning of a line, followed by another key.
type escapes struct {
	inLine bool // a key was typed since the last end of line
	tilde  bool // the last key was a tilde at the beginning of a line
}

// feed returns the keys that are for the command. leave and help report that the user asked to
// leave or for help.
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

// keyInterrupt is Ctrl-C on a terminal in raw mode.
const keyInterrupt = 0x03

// pumpKeys writes typed keys to a process's terminal. It does not pass on the end of the input,
// because on a terminal that is a key. It also reads keys while the connection is lost. Then Ctrl-C
// ends the command by cancel; ~. always does.
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
