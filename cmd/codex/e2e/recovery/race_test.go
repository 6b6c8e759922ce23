//go:build linux && race

package recovery

const raceDetector = true
