// Package network attacks the network of a sandbox with the released programs. The tests create a
// network of their own. Its only route leads to a machine that has every address and records all
// packets.
package network

import (
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

func TestMain(m *testing.M) { harness.SlowMain(m) }
