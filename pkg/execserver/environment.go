package execserver

import (
	"context"
	"errors"
	"os"
	"strings"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/files"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/host/codexconfig"
	"codex.internal/pkg/wire/logtext"
	"codex.internal/pkg/wire/pathuri"
)

// environment returns the result of environment/info. Some capabilities are set
// only if the sandbox backend can enforce every plan. The backend is probed with
// the first client and not earlier, so that a server listens at once.
func (srv *Server) environment() execproto.EnvironmentInfo {
	info := srv.info
	if r, err := srv.confiner.Sandboxes(); err == nil && r.Status().Complete {
		info.Capabilities.SandboxedFileStreaming = true
		info.Capabilities.RootWriteKeepsDevices = true
		info.Capabilities.RootWriteKeepsRestrictions = true
		info.Capabilities.CapabilityDiscoverySandbox = true
		info.Capabilities.CapabilityDiscoveryV2 = srv.opts.CodexHome != ""
		proxies := srv.proxies(r.Status())
		info.Capabilities.NetworkProxyLaunch = proxies
		info.Capabilities.NetworkProxyReviewDomains = proxies
	}
	return info
}

// environmentInfo answers environment/info (docs/spec/wire.md §7.1).
func environmentInfo(_ context.Context, c *conn, _ *struct{}) (reply.Result, error) {
	return c.srv.environment(), nil
}

// environmentStatus answers environment/status.
func environmentStatus(context.Context, *conn, *struct{}) (reply.Result, error) {
	return execproto.StatusResult{Status: "ready"}, nil
}

const (
	// codexVersion is the version of Codex CLI that a server stands in for. Clients of
	// Codex CLI compare executorVersion with the versions that introduced features:
	// 0.169.0 does not send capabilities/discoverV2 to a server whose version is below
	// 0.168 or cannot be compared.
	codexVersion = "0.169.0"
	// maxOwnVersion is more than the longest version that a release or a commit has, in bytes.
	maxOwnVersion = 64
)

// executorVersion returns the version for clients (docs/spec/wire.md §7.1): a semantic
// version, with the server's own version as build metadata, which is ignored in comparisons.
func executorVersion(own string) string {
	own = strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '.', r == '-':
			return r
		}
		return '-'
	}, logtext.Clip(own, maxOwnVersion)), ".")
	for strings.Contains(own, "..") {
		own = strings.ReplaceAll(own, "..", ".")
	}
	if own == "" {
		return codexVersion
	}
	return codexVersion + "+" + own
}

// environmentConfigRead answers environmentConfig/read (docs/spec/wire.md §7.4).
func environmentConfigRead(ctx context.Context, c *conn, p *execproto.ConfigReadParams) (reply.Result, error) {
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
	found, err := files.Blocking(ctx, func() (codexconfig.Result, error) { return machine.Read(ctx, query) })
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

// configStack converts layers. Codex CLI puts the layers of its cloud after those
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
