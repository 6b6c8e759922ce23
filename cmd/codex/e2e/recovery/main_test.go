// Package recovery tests from outside that no data is lost when connections are cut and services
// are killed.
package recovery

import (
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

func TestMain(m *testing.M) { harness.SlowMain(m) }
