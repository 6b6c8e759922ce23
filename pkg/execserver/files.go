package execserver

import (
	"context"
	"encoding/json"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/files"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/sandbox/runner"
)

// This file connects the methods about files with pkg/execserver/files, which sees a connection
// as a files.Conn: Send and Session are in tunnel.go, MayChange and MayOpen in roles.go.

// newFiles returns the files.Server for all connections.
func (srv *Server) newFiles() *files.Server {
	return files.NewServer(files.Options{
		Events: srv.events, Home: srv.home, CodexHome: srv.opts.CodexHome, MaxHandles: srv.opts.MaxHandles,
		Sandboxes: srv.confiner.Enforcing, Launcher: srv.confiner.Launcher, Supervisor: srv.supervisor,
		ReadsLarge: srv.movesBytes,
	})
}

// fileSequences determine the order of a connection's requests about the same handle or the
// same watch.
type fileSequences struct {
	handles sequence // by the id of the handle
	trees   sequence // fs/watch and fs/unwatch, by the id of the watch
	missing sequence // for fs/watchMissing
}

// The sequences of a connection, for bySequence.
func ofHandles(c *conn) *sequence { return &c.fileTurns.handles }
func ofWatches(c *conn) *sequence { return &c.fileTurns.trees }

// Confinement implements files.Conn. It returns how a file request must be confined whose
// params have the given sandbox; nil: not at all.
func (c *conn) Confinement(ctx context.Context, raw json.RawMessage) (*runner.Confinement, error) {
	if raw == nil && !c.grant.Ceiling.ConfinesFiles() && c.grant.Role.Allows(wsauth.RoleRun) {
		return nil, nil
	}
	return files.Blocking(ctx, func() (*runner.Confinement, error) { return c.srv.confiner.FileConfinement(&c.grant, raw) })
}

// Writes implements files.Conn. A keeper's session belongs to no connection.
func (c *conn) Writes() *files.Writes {
	if c.srv.keeper != nil {
		return nil
	}
	return c.session.writes
}

// ofFiles makes a handler of a method of files.Files.
func ofFiles[P any](answer func(f *files.Files, ctx context.Context, p *P) (reply.Result, error)) func(context.Context, *conn, *P) (reply.Result, error) {
	return func(ctx context.Context, c *conn, p *P) (reply.Result, error) { return answer(c.files, ctx, p) }
}

// fsWatchMissing accepts fs/watchMissing. Requests take effect in the order in which the client
// sent them (docs/spec/wire.md §5.8).
func fsWatchMissing(c *conn, p *execproto.WatchMissingParams) (call, error) {
	if err := c.outsideCeiling(execproto.MethodFSWatchMissing); err != nil {
		return call{}, err
	}
	return call{
		turn: c.fileTurns.missing.enter(""),
		run:  func(ctx context.Context) (reply.Result, error) { return c.files.WatchMissing(ctx, p) },
	}, nil
}
