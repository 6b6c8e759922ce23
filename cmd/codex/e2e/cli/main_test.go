//go:build linux

// Package cli tests the commands of codex from outside: arguments, terminals, signals and
// what they leave behind.
package cli

import (
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
