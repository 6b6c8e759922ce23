// Package sandbox tests from outside what confines commands and file requests.
package sandbox

import (
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

func TestMain(m *testing.M) { harness.SlowMain(m) }
