//go:build interop

// Package interop tests codex together with Codex CLI. The variable CODEX_UPSTREAM names
// its program: see scripts/interop.
package interop

import (
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

func TestMain(m *testing.M) { harness.SlowMain(m) }
