package execserver

import (
	"testing"

	"codex.internal/pkg/host/hostinfo"
)

// TestDescribeUsesTheWordsOfTheProtocol checks that macOS is not called darwin.
func TestDescribeUsesTheWordsOfTheProtocol(t *testing.T) {
	if got := describe(hostinfo.Info{PlatformOS: "macos"}, Options{}).PlatformOS; got != "macos" {
		t.Errorf("the platform is %q, want macos", got)
	}
}
