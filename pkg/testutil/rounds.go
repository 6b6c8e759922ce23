package testutil

import (
	"os"
	"testing"
)

// allRounds is the variable that scripts/test --race sets.
const allRounds = "CODEX_TEST_ALL"

// Rounds returns how often a test repeats that tries many cases: few with -short, as
// scripts/test --quick has it; all when scripts/test --race runs it, as .ci/run does; else some.
func Rounds[N int | uint64](few, some, all N) N {
	switch {
	case testing.Short():
		return few
	case os.Getenv(allRounds) != "":
		return all
	default:
		return some
	}
}
