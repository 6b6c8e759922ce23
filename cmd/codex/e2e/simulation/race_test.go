//go:build linux && race

package simulation

// The race detector takes ten times as long and has the scheduler choose at random: a
// replay is not exact, and each seed is played once.
const (
	defaultCount   = 20
	defaultReplays = 1
)
