//go:build linux

// Package tunnel tests forwarded ports from outside, over each way to a server.
package tunnel

import (
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
