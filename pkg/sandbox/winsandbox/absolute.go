package winsandbox

import "strings"

// isAbsolute reports whether a path is absolute on Windows, with a drive or a
// share, or on Unix. It does not depend on the system that it runs on.
func isAbsolute(path string) bool {
	if strings.HasPrefix(path, "/") {
		return true
	}
	if share, ok := strings.CutPrefix(path, `\\`); ok {
		// \\server\share, and with it \\?\C:\x and \\.\device.
		end := strings.IndexFunc(share, isSeparator)
		return end > 0 && end+1 < len(share) && !isSeparator(rune(share[end+1]))
	}
	return len(path) >= 3 && isLetter(path[0]) && path[1] == ':' && isSeparator(rune(path[2]))
}

func isSeparator(r rune) bool { return r == '\\' || r == '/' }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
