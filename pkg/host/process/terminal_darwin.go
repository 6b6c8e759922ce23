package process

// passesTo returns false: only the sandbox launcher passes signals on, and there
// is none on macOS.
func (*Process) passesTo(int) bool { return false }
