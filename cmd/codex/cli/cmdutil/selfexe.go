package cmdutil

import "os"

// SelfExe is the program that serves this machine, which is this one; empty:
// it cannot be found.
func SelfExe() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return self
}
