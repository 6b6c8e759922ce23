//go:build linux || darwin

package cli

import "os"

// selfExe is the program that serves this machine, which is this one; empty:
// it cannot be found.
func selfExe() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return self
}
