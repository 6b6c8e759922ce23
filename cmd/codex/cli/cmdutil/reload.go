package cmdutil

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
)

// OnHangup calls f at each SIGHUP, one call at a time, until stop is called. stop waits for the last call.
func OnHangup(f func()) (stop func()) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-asked:
				f()
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		signal.Stop(asked)
		cancel()
		<-done
	}
}

// Reloader reads the options of a running service again. It must be used by one goroutine. Files with tokens and
// certificates are not options here: services read them again when they change.
type Reloader struct {
	Start *Options                       // of the start
	Flags func() []cli.Flag              // new flags of the command
	File  func(*cli.Context) OptionsFile // the file of the command
	Can   func(option string) bool       // whether a running service can change an option
	Apply func(c *cli.Context) error     // applies those options, or none and returns an error
	Log   *slog.Logger
	last  *Options // read last; nil: Start
}

// Reload reads the options again and applies those that can change. It logs which have changed, and which need a restart.
func (r *Reloader) Reload() {
	if r.last == nil {
		r.last = r.Start
	}
	next, err := r.Start.Reread(r.Flags(), r.File)
	if err == nil {
		err = next.Explain(r.Apply(next.c))
	}
	if err != nil {
		r.Log.Error("the options were not read again, and the server goes on with those that it has", "error", err, "advice", AdviceOn(err))
		return
	}
	changed := slices.DeleteFunc(r.last.Changed(next), func(name string) bool { return !r.Can(name) })
	waiting := slices.DeleteFunc(r.Start.Changed(next), r.Can)
	r.last = next
	r.Log.Info("the options were read again", "changed", strings.Join(changed, " "), "need_a_restart", strings.Join(waiting, " "))
}
