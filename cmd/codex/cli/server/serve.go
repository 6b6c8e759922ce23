package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/wire/websocket"
	"github.com/urfave/cli/v2"
)

// serve runs the server with its front, and shuts it down. ready informs the service manager that clients
// can connect.
func serve(c *cli.Context, s cmdutil.Streams, srv *execserver.Server, f front, log *slog.Logger,
	manager *cmdutil.ServiceManager, ready func()) error {
	return untilAsked(c, s, !f.stdin && c.Bool("exit-on-stdin-close"), log, func(ctx context.Context) error {
		defer manager.Tend()()
		if group := process.OOMGroup(); group != "" {
			log.Warn("when memory is short, the kernel kills this server together with all commands; docs/operations.md says how to avoid it", "cgroup", group, "reason", "memory.oom.group is 1")
		}
		defer cmdutil.StartMetrics(f.metrics, srv.Metrics(), log)()
		err := f.serve(ctx, srv, ready)
		logEnd(ctx, log)
		manager.Stopping()
		bound, cancel := context.WithTimeout(context.Background(), shutdownTime)
		defer cancel()
		if e := srv.Shutdown(bound); e != nil {
			log.Warn("not everything ended in time", "error", e)
		}
		if errors.Is(err, execserver.ErrServerClosed) {
			return nil
		}
		return err
	})
}

// logEnd logs the reason why the program ends, if it was asked to.
func logEnd(ctx context.Context, log *slog.Logger) {
	if cause := context.Cause(ctx); cause != nil {
		log.Info("shutting down", "reason", cause)
	}
}

// untilAsked runs f. The context of f ends at the first SIGINT or SIGTERM and, with watchStdin, at the
// end of stdin. A second signal ends the program at once. SIGHUP is for cmdutil.OnHangup.
func untilAsked(c *cli.Context, s cmdutil.Streams, watchStdin bool, log *slog.Logger, f func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(c.Context)
	defer stop(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	signals := make(chan os.Signal, 2)
	asked := []os.Signal{syscall.SIGTERM}
	if !process.InheritedIgnore(syscall.SIGINT) {
		asked = append(asked, syscall.SIGINT)
	}
	signal.Notify(signals, asked...)
	defer signal.Stop(signals)
	ended := make(chan struct{})
	defer close(ended)
	wg.Go(func() { routineSignals(signals, ended, stop, log) })

	if watchStdin {
		// A read of stdin cannot be interrupted, so nothing waits for this goroutine.
		go func() {
			_, _ = io.Copy(io.Discard, s.In)
			stop(errors.New("stdin closed"))
		}()
	}
	return f(ctx)
}

// serveStdio serves the only connection, which is on stdin and stdout.
func serveStdio(ctx context.Context, s cmdutil.Streams, srv *execserver.Server) error {
	done := make(chan error, 1)
	go func() { done <- srv.ServeConn(websocket.NewStdio(s.In, s.Out, 0)) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return nil // Shutdown ends the connection
	}
}

// routineSignals shuts the server down at the first signal, and ends the program at the second.
func routineSignals(signals <-chan os.Signal, ended <-chan struct{}, stop context.CancelCauseFunc, log *slog.Logger) {
	select {
	case sig := <-signals:
		stop(fmt.Errorf("received %v", sig))
	case <-ended:
		return
	}
	select {
	case sig := <-signals:
		log.Warn("ending at once", "signal", sig.String())
		os.Exit(cmdutil.ExitFailed)
	case <-ended:
	}
}
