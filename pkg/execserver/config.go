package execserver

import (
	"context"
	"errors"
	"os"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/codexconfig"
	"codex.internal/pkg/wire/pathuri"
)

// environmentConfigRead answers environmentConfig/read (docs/spec/wire.md §7.4).
func environmentConfigRead(ctx context.Context, c *conn, p *execproto.ConfigReadParams) (result, error) {
	srv := c.srv
	if err := c.outsideCeiling(execproto.MethodEnvironmentConfigRead); err != nil {
		return nil, err
	}
	cwd, err := pathuri.Parse(p.Cwd, srv.home)
	if err != nil {
		return nil, execproto.InvalidParams("cwd: " + err.Error())
	}
	if srv.opts.CodexHome == "" {
		return nil, configError(errors.New("this server has no CODEX_HOME"))
	}
	machine := codexconfig.Machine{System: codexconfig.SystemDirectory, Home: srv.opts.CodexHome}
	query := codexconfig.Query{Cwd: cwd, Config: p.ConfigPaths, Requirements: p.RequirementsPaths}
	found, err := withThread(ctx, func() (codexconfig.Result, error) { return machine.Read(ctx, query) })
	if err != nil {
		return nil, configError(err)
	}
	r := execproto.ConfigReadResult{
		CodexHomeDir: pathuri.Format(srv.opts.CodexHome),
		Config:       configStack(found.Config),
		Requirements: configStack(found.Requirements),
	}
	if srv.home != "" {
		home := pathuri.Format(srv.home)
		r.UserHomeDir = &home
	}
	if name, err := os.Hostname(); err == nil {
		r.Hostname = &name
	}
	return r, nil
}

func configError(err error) error {
	return execproto.Internal("failed to load executor-local config: " + err.Error())
}

// configStack converts layers. Codex CLI puts the layers of its cloud behind those
// of the machine's administrator.
func configStack(found codexconfig.Stack) execproto.ConfigStack {
	stack := execproto.ConfigStack{CloudInsertionIndex: found.System}
	for _, l := range found.Layers {
		stack.Layers = append(stack.Layers, execproto.ConfigLayer{
			Source: l.Source, BaseDir: pathuri.Format(l.BaseDir), TOML: l.TOML,
		})
	}
	return stack
}
