// Package rendezvous tests the rendezvous service, and servers that register at it, from
// outside.
package rendezvous

import (
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

func TestMain(m *testing.M) { harness.SlowMain(m) }
