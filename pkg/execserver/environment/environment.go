// Package environment describes the server's machine to clients: environment/info
// (docs/spec/wire.md §7.1) and environmentConfig/read (docs/spec/wire.md §7.4). The package
// does not depend on the server. It may import host and wire; it must not import pkg/execserver
// or the other packages below it but reply.
package environment

import (
	"context"
	"errors"
	"os"
	"strings"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/host/codexconfig"
	"codex.internal/pkg/host/info"
	"codex.internal/pkg/wire/logtext"
	"codex.internal/pkg/wire/pathuri"
)

// Environment is the description of the server's machine. It never changes.
type Environment struct {
	Home, Cwd string // directories of the server

	codexHome string // "": config.toml is not read
	info      execproto.EnvironmentInfo
}

// Read examines the machine, for a program with the given version.
func Read(version, codexHome string) *Environment {
	host := info.Read()
	return &Environment{Home: host.Home, Cwd: host.Cwd, codexHome: codexHome, info: describe(host, version, codexHome)}
}

// Sandbox is what the server can enforce and offer on this machine.
type Sandbox struct {
	Writes    bool // the usual policies, in which a workspace may be written
	Complete  bool // every policy
	Proxies   bool // processes can have network proxies
	Redirects bool // the connections of programs that know no proxy are passed to it
}

// Info returns the result of environment/info.
func (e *Environment) Info(s Sandbox) execproto.EnvironmentInfo {
	result := e.info
	if s.Writes {
		result.Capabilities.SandboxedFileStreaming = true
		result.Capabilities.CapabilityDiscoverySandbox = true
		result.Capabilities.CapabilityDiscoveryV2 = e.codexHome != ""
	}
	if s.Complete {
		result.Capabilities.RootWriteKeepsDevices = true
		result.Capabilities.RootWriteKeepsRestrictions = true
		result.Capabilities.NetworkProxyLaunch = s.Proxies
		result.Capabilities.NetworkProxyReviewDomains = s.Proxies
		result.Capabilities.NetworkProxyTransparentTCP = s.Proxies && s.Redirects
	}
	return result
}

// describe returns the result of environment/info for a host, without the
// capabilities of the sandbox.
func describe(host info.Info, version, codexHome string) execproto.EnvironmentInfo {
	uri := func(path string) string {
		if path == "" {
			return ""
		}
		return pathuri.Format(path)
	}
	result := execproto.EnvironmentInfo{
		Shell:                execproto.Shell{Name: host.Shell.Name, Path: host.Shell.Path},
		Cwd:                  uri(host.Cwd),
		TempDir:              uri(host.TempDir),
		UserHomeDir:          uri(host.Home),
		TemporaryDirectories: []string{},
		PlatformOS:           host.PlatformOS,
		ExecutorVersion:      executorVersion(version),
		Capabilities: execproto.Capabilities{
			FileWriteStreaming:    true,
			HTTPHeaderEnvVars:     true,
			EnvironmentConfigRead: codexHome != "",
			FSWatchMissing:        true,
			ShellSnapshotV2:       true,
		},
	}
	for _, dir := range host.TemporaryDirectories {
		result.TemporaryDirectories = append(result.TemporaryDirectories, uri(dir))
	}
	return result
}

const (
	// codexVersion is the version of Codex CLI whose features this server has. Clients of Codex
	// CLI compare executorVersion with the versions that introduced features: 0.169.0 does not
	// send capabilities/discoverV2 to a server whose version is below 0.168 or cannot be
	// compared.
	codexVersion = "0.171.0"
	// maxOwnVersion bounds the server's own version, in bytes. Versions of releases and of
	// commits are shorter.
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

// ReadConfig answers environmentConfig/read. It reads the disk.
func (e *Environment) ReadConfig(ctx context.Context, p *execproto.ConfigReadParams) (reply.Result, error) {
	cwd, err := pathuri.Parse(p.Cwd, e.Home)
	if err != nil {
		return nil, execproto.InvalidParams("cwd: " + err.Error())
	}
	if e.codexHome == "" {
		return nil, configError(errors.New("this server has no CODEX_HOME"))
	}
	machine := codexconfig.Machine{System: codexconfig.SystemDirectory, Home: e.codexHome}
	found, err := machine.Read(ctx, codexconfig.Query{Cwd: cwd, Config: p.ConfigPaths, Requirements: p.RequirementsPaths})
	if err != nil {
		return nil, configError(err)
	}
	r := execproto.ConfigReadResult{
		CodexHomeDir: pathuri.Format(e.codexHome),
		Config:       configStack(found.Config),
		Requirements: configStack(found.Requirements),
	}
	if e.Home != "" {
		home := pathuri.Format(e.Home)
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

// configStack converts layers to the protocol's form. Codex CLI puts the layers of its cloud
// after those of the machine's administrator.
func configStack(found codexconfig.Stack) execproto.ConfigStack {
	stack := execproto.ConfigStack{CloudInsertionIndex: found.System}
	for _, l := range found.Layers {
		stack.Layers = append(stack.Layers, execproto.ConfigLayer{
			Source: l.Source, BaseDir: pathuri.Format(l.BaseDir), TOML: l.TOML,
		})
	}
	return stack
}
