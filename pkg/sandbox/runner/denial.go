package runner

import "bytes"

// Exit codes that the heuristic uses.
const (
	exitMisuse     = 2
	exitCannotExec = 126
	exitNotFound   = 127
	exitSIGSYS     = 128 + 31
)

// denials are typical messages of programs about refusals.
var denials = [][]byte{
	[]byte("operation not permitted"), []byte("permission denied"), []byte("read-only file system"),
	[]byte("seccomp"), []byte("sandbox"), []byte("landlock"), []byte("failed to write file"),
}

// notExecuted is the launcher's message for a program that does not exist or
// may not be executed. The launcher's name in it is not a sign of a denial; the
// reason after it may be one.
var notExecuted = []byte("codex-linux-sandbox: failed to execvp")

// Denied reports whether a sandboxed command was likely denied an operation, judging by its exit
// code and its output (docs/spec/sandbox.md §5.4). It is a heuristic: it misses a command that
// fails silently, and it matches a command that fails for another reason but mentions permissions.
func Denied(exitCode int, stdout, stderr []byte) bool {
	if exitCode == 0 {
		return false
	}
	for _, text := range [][]byte{stderr, stdout, bytes.Join([][]byte{stdout, stderr}, nil)} {
		lower := bytes.ReplaceAll(bytes.ToLower(text), notExecuted, nil)
		for _, d := range denials {
			if bytes.Contains(lower, d) {
				return true
			}
		}
	}
	switch exitCode {
	case exitMisuse, exitCannotExec, exitNotFound:
		return false
	}
	return exitCode == exitSIGSYS
}
