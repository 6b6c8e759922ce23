package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/host/terminal"
)

// link prints the state of the connection. While the connection is being recovered, it shows a
// line, which the outcome replaces on a terminal.
type link struct {
	wake chan struct{} // a change must be printed

	mu      sync.Mutex
	state   execclient.StateChange
	lostAt  time.Time // zero: the connection is not lost
	backAt  time.Time
	shown   execclient.State // the state that the last line shows
	to      io.Writer
	inPlace bool // to is a terminal
	quiet   bool // print only the loss of the session
	stopped bool // the server has reported that it stops, so the loss of the connection is no news
}

func newLink(to io.Writer, quiet bool) *link {
	return &link{wake: make(chan struct{}, 1), to: cmdutil.DrawOn(to), inPlace: cmdutil.IsTerminal(to), quiet: quiet}
}

// changed is for execclient.Options.OnStateChange. It prints nothing itself, because a
// terminal may be slow.
func (l *link) changed(c execclient.StateChange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = c
	switch {
	case c.State == execclient.Recovering && l.lostAt.IsZero():
		l.lostAt = time.Now()
	case c.State == execclient.Connected:
		l.backAt = time.Now()
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// routineShow prints changes until ctx ends and all are printed.
func (l *link) routineShow(ctx context.Context) {
	for {
		select {
		case <-l.wake:
			l.show()
		case <-ctx.Done():
			l.show()
			return
		}
	}
}

func (l *link) show() {
	to, text := l.news()
	// Write without the lock: a terminal may be slow, and the client must not wait for it.
	_, _ = io.WriteString(to, text)
}

// news returns the text to print, and the writer. On a terminal, which may be in raw mode, a line
// that the outcome will replace has no line break.
func (l *link) news() (to io.Writer, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lostAt.IsZero() || l.state.State == l.shown || l.stopped {
		return l.to, ""
	}
	l.shown = l.state.State
	why := "the connection was lost"
	var lost *execclient.DisconnectedError
	if errors.As(l.state.Err, &lost) && lost.Reason != "" {
		why = "the server has ended the connection: " + terminal.Text(lost.Reason)
	}
	last := l.shown != execclient.Recovering
	switch l.shown {
	case execclient.Recovering:
		text = "codex: " + why + "; reconnecting…"
	case execclient.Connected:
		text = fmt.Sprintf("codex: reconnected after %v", l.backAt.Sub(l.lostAt).Round(time.Millisecond))
	default:
		text = "codex: " + why + ", and with it the session"
	}
	if last {
		l.lostAt = time.Time{}
	}
	switch {
	case l.quiet && l.shown != execclient.Failed:
		return l.to, ""
	case !l.inPlace:
		text += "\n"
	case last:
		text = "\r\x1b[K" + text + "\r\n"
	default:
		text = "\r\x1b[K" + text
	}
	return l.to, text
}

// serverStops is called when the server has reported that it is being shut down.
func (l *link) serverStops() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
}

// say prints a line, also on a terminal in raw mode.
func (l *link) say(line string) {
	l.mu.Lock()
	to, text := l.to, "codex: "+line+"\n"
	if l.inPlace {
		text = "\r\x1b[Kcodex: " + line + "\r\n"
	}
	l.mu.Unlock()
	_, _ = io.WriteString(to, text)
}

// lost reports whether the connection is being recovered.
func (l *link) lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.State == execclient.Recovering
}

// divert prints complete lines to another writer until undo is called.
func (l *link) divert(to io.Writer) (undo func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, inPlace := l.to, l.inPlace
	l.to, l.inPlace = to, false
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.to, l.inPlace = before, inPlace
	}
}

type linkKey struct{}

// withLink returns a context with which connect reports the connection's state to the link.
func withLink(ctx context.Context, l *link) context.Context {
	return context.WithValue(ctx, linkKey{}, l)
}

// onStateChange returns the callback of the context's link; nil if there is no link.
func onStateChange(ctx context.Context) func(id string, change execclient.StateChange) {
	if l, ok := ctx.Value(linkKey{}).(*link); ok {
		return func(_ string, change execclient.StateChange) { l.changed(change) }
	}
	return nil
}
