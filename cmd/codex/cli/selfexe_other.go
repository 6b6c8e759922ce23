//go:build !linux && !darwin

package cli

// selfExe is the program that serves this machine: none does.
func selfExe() string { return "" }
