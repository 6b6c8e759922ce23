package process

import "os"

// runningProgram leads to the program that this process runs, also when its file was removed or replaced.
const runningProgram = "/proc/self/exe"

// ownProgram returns the path from which a helper of the server is executed: path, or runningProgram if path leads to no file or
// if an upgrade has put another version of this program there. Every helper is a part of this program.
func ownProgram(path string) string {
	running, err := os.Stat(runningProgram)
	if err != nil {
		return path
	}
	found, err := os.Stat(path)
	if self, _ := os.Executable(); err != nil || path == self && !os.SameFile(found, running) {
		return runningProgram
	}
	return path
}
