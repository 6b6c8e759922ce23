package execserver

import (
	"context"
	"fmt"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/environment"
	"codex.internal/pkg/execserver/files"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/wire/pathuri"
)

// This file connects the methods about the environment with pkg/execserver/environment.

// environment returns the result of environment/info. The first call probes the backend: if New
// did that, a new server would listen later.
func (srv *Server) environment() execproto.EnvironmentInfo {
	r, err := srv.confiner.Sandboxes()
	if err != nil {
		return srv.env.Info(environment.Sandbox{})
	}
	status := r.Status()
	return srv.env.Info(environment.Sandbox{Writes: status.Writes, Complete: status.Complete, Proxies: srv.proxies(status), Redirects: status.Redirects})
}

// CheckSandbox returns an error if this machine cannot confine commands that may write a workspace: such requests will be refused. The
// first call probes the backend.
func (srv *Server) CheckSandbox() error {
	r, err := srv.confiner.Sandboxes()
	if err != nil {
		return err
	}
	// An operator who chooses Landlock wants it to confine only commands that may not write.
	if status := r.Status(); !status.Writes && srv.opts.Sandbox.Backend != "landlock" {
		return fmt.Errorf("backend %s: %s", status.Backend, status.Reason)
	}
	return nil
}

// environment returns the result of environment/info for the client, without the capabilities
// whose methods are refused to it. The directory of a confined client is the one to which it is
// confined, because it can use no other.
func (c *conn) environment() execproto.EnvironmentInfo {
	info := c.srv.environment()
	allows := func(method string) bool { return c.permit(method) == nil && c.outsideCeiling(method) == nil }
	info.Capabilities.EnvironmentConfigRead = info.Capabilities.EnvironmentConfigRead && allows(execproto.MethodEnvironmentConfigRead)
	info.Capabilities.FSWatchMissing = info.Capabilities.FSWatchMissing && allows(execproto.MethodFSWatchMissing)
	if dir := c.grant.Ceiling.Dir; dir != "" {
		info.Cwd = pathuri.Format(dir)
	}
	return info
}

// environmentInfo answers environment/info.
func environmentInfo(_ context.Context, c *conn, _ *struct{}) (reply.Result, error) {
	return c.environment(), nil
}

// environmentStatus answers environment/status.
func environmentStatus(context.Context, *conn, *struct{}) (reply.Result, error) {
	return execproto.StatusResult{Status: "ready"}, nil
}

// environmentConfigRead answers environmentConfig/read.
func environmentConfigRead(ctx context.Context, c *conn, p *execproto.ConfigReadParams) (reply.Result, error) {
	if err := c.outsideCeiling(execproto.MethodEnvironmentConfigRead); err != nil {
		return nil, err
	}
	return files.Blocking(ctx, func() (reply.Result, error) { return c.srv.env.ReadConfig(ctx, p) })
}
