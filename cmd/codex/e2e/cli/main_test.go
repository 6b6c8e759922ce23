// Package cli tests the commands of codex from outside: arguments, terminals, signals and
// leftover files and processes.
package cli

import (
	"os"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "generous" {
		os.Exit(generous())
	}
	harness.Main(m)
}
