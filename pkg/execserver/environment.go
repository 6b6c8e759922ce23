package execserver

import (
	"context"

	"codex.internal/pkg/execproto"
)

// environment returns the result of environment/info. Some capabilities are set
// only if the sandbox backend can enforce every plan. The backend is probed with
// the first client and not earlier, so that a server listens at once.
func (srv *Server) environment() execproto.EnvironmentInfo {
	info := srv.info
	if r, err := srv.sandboxes(); err == nil && r.Status().Complete {
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
func environmentInfo(_ context.Context, c *conn, _ *struct{}) (result, error) {
	return c.srv.environment(), nil
}

// environmentStatus answers environment/status.
func environmentStatus(context.Context, *conn, *struct{}) (result, error) {
	return execproto.StatusResult{Status: "ready"}, nil
}
