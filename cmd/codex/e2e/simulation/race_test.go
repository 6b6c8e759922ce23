//go:build linux && race

package simulation

// defaultCount is lower with the race detector, which takes ten times as long.
const defaultCount = 20
