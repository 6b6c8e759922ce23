//go:build linux && !race

package simulation

const defaultCount = 50
