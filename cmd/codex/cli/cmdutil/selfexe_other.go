//go:build !linux

package cmdutil

// SelfExe is the program that serves this machine: none does.
func SelfExe() string { return "" }
