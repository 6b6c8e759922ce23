// Package sandbox tests the confinement of commands and file requests from outside.
package sandbox

import (
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

func TestMain(m *testing.M) { harness.SlowMain(m) }
