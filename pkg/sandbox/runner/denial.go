package runner

import "bytes"

// Exit codes that the heuristic knows.
const (
	exitMisuse     = 2
	exitCannotExec = 126
	exitNotFound   = 127
	exitSIGSYS     = 128 + 31
)

// denials are what programs say when something is refused.
var denials = [][]byte{
	[]byte("operation not permitted"), []byte("permission denied"), []byte("read-only file system"),
	[]byte("seccomp"), []byte("sandbox"), []byte("landlock"), []byte("failed to write file"),
}

// notExecuted is what the launcher says when there is no such program, or it
// may not be executed. Its own name is no sign of a denial; the reason that
// follows may be one.
var notExecuted = []byte("codex-linux-sandbox: failed to execvp")

// Denied reports whether a sandboxed command was likely denied something, by
// its exit code and what it wrote (docs/spec/sandbox.md §5.4). It is a
// heuristic: a command that fails silently is not seen, and one that talks of
// permissions is.
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
