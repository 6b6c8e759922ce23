package cmdutil

import "os"

// SelfExe returns the path of this program, which is also the server for the local environment; empty if it cannot
// be found.
func SelfExe() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return self
}
