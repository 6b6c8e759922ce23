//go:build !linux && !darwin

package cmdutil

// SelfExe is the program that serves this machine: none does.
func SelfExe() string { return "" }
