package execserver

import (
	"testing"

	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox/placeholders"
)

// TestJanitorName: who kills what is left must know the launcher's janitors.
func TestJanitorName(t *testing.T) {
	if process.JanitorName != placeholders.JanitorName {
		t.Errorf("the launcher calls its janitor %q, and %q is spared", placeholders.JanitorName, process.JanitorName)
	}
	if len(placeholders.JanitorName) > 15 {
		t.Errorf("the kernel cuts %q", placeholders.JanitorName)
	}
}
