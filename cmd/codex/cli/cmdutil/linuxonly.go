package cmdutil

import (
	"fmt"
	"runtime"
)

// LinuxOnly returns the error of a command that this system cannot run, with advice on what to
// run instead.
func LinuxOnly(command, advice string) error {
	system := runtime.GOOS
	switch system {
	case "darwin":
		system = "macOS"
	case "windows":
		system = "Windows"
	}
	return WithAdvice(fmt.Errorf("%s runs on Linux only, and this system is %s", command, system), advice)
}
