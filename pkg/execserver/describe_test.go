package execserver

import (
	"testing"

	"codex.internal/pkg/host/info"
)

// TestDescribeUsesTheWordsOfTheProtocol checks that macOS is not called darwin.
func TestDescribeUsesTheWordsOfTheProtocol(t *testing.T) {
	if got := describe(info.Info{PlatformOS: "macos"}, Options{}).PlatformOS; got != "macos" {
		t.Errorf("the platform is %q, want macos", got)
	}
}
