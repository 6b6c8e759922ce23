package execserver

import (
	"context"
	"slices"

	"codex.internal/pkg/execserver/confine"
)

// newConfiner returns the Confiner of the server's requests.
func (srv *Server) newConfiner() *confine.Confiner {
	o := &srv.opts
	return confine.New(confine.Options{
		Sandbox: o.Sandbox, Log: srv.log, Supervisor: srv.supervisor, Home: srv.home, Cwd: srv.cwd, UnconfinedReaders: o.AllowUnconfinedReaders,
		HiddenPaths: func() []string { return slices.Concat(srv.rules.Load().EgressPolicy.SecretPaths(), o.HiddenPaths) }, PrivatePaths: o.PrivatePaths,
		RetainDir: func() string { return srv.detached.Directory() },
	})
}

// makeSandbox determines how the process must be confined.
func makeSandbox(ctx context.Context, st *start) (err error) {
	st.confinement, err = st.sandbox.Confinement(ctx)
	return err
}
