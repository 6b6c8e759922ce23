package remote

import (
	"context"
	"errors"
	"io"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/host/terminal"
)

// reconnecting calls once, which opens a session and sets began when it has succeeded with its first step. If
// the session is lost after that, for example because the server was restarted or this machine slept, it calls once again,
// until the context ends.
func reconnecting(ctx context.Context, errs io.Writer, began *bool, once func() error) error {
	for last := ""; ; {
		err := once()
		var lost *execclient.DisconnectedError
		var exit *cmdutil.ExitError
		unreachable := errors.As(err, &exit) && exit.Code == cmdutil.ExitUnreachable
		if ctx.Err() != nil || !*began || !errors.As(err, &lost) && !unreachable {
			return err
		}
		if text := err.Error(); text != last { // print the same error once, and not for each attempt
			cmdutil.Messagef(errs, "codex: %s; connecting again until Ctrl-C\n", terminal.Text(text))
			last = text
		}
		pause := time.NewTimer(redialPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
}
