package environment

import (
	"testing"

	"codex.internal/pkg/execproto"
)

// TestOnlyWhatTheSandboxEnforcesIsAnnounced: the backend broker enforces the usual policies, and none with a writable root or proxies.
func TestOnlyWhatTheSandboxEnforcesIsAnnounced(t *testing.T) {
	usual := execproto.Capabilities{SandboxedFileStreaming: true, CapabilityDiscoverySandbox: true, CapabilityDiscoveryV2: true}
	every := usual
	every.RootWriteKeepsDevices, every.RootWriteKeepsRestrictions = true, true
	proxied := every
	proxied.NetworkProxyLaunch, proxied.NetworkProxyReviewDomains = true, true
	redirected := proxied
	redirected.NetworkProxyTransparentTCP = true
	e := &Environment{codexHome: "/home/.codex"}
	for s, want := range map[Sandbox]execproto.Capabilities{
		{}:                              {},
		{Writes: true}:                  usual,
		{Writes: true, Redirects: true}: usual,
		{Writes: true, Complete: true}:  every,
		{Writes: true, Complete: true, Redirects: true}:                every,
		{Writes: true, Complete: true, Proxies: true}:                  proxied,
		{Writes: true, Complete: true, Proxies: true, Redirects: true}: redirected,
	} {
		if got := e.Info(s).Capabilities; got != want {
			t.Errorf("%+v: got %+v, want %+v", s, got, want)
		}
	}
}
