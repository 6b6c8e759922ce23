package execserver

import (
	"testing"

	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox"
)

// TestJanitorName: who kills what is left must know the launcher's janitors.
func TestJanitorName(t *testing.T) {
	if process.JanitorName != sandbox.JanitorName {
		t.Errorf("the launcher calls its janitor %q, and %q is spared", sandbox.JanitorName, process.JanitorName)
	}
	if len(sandbox.JanitorName) > 15 {
		t.Errorf("the kernel cuts %q", sandbox.JanitorName)
	}
}
