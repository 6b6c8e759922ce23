// Package roles attacks the roles and ceilings of tokens from outside: with each backend of the
// sandbox, as root and as an ordinary user.
package roles

import (
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

func TestMain(m *testing.M) { harness.SlowMain(m) }
