package codexfs

import (
	"os"
	"strconv"
	"strings"

	"codex.internal/pkg/host/files"
)

// denialsVariable has what the launcher masks: a line for each mount that is a mask, with - and the quoted path, and for each one
// that is none, with +.
const denialsVariable = "CODEX_FS_DENIED"

// denyMasked has files below masks refused, whatever the kernel shows there: if a mask is missing by a mistake, nothing
// else hides them. It returns false if it does not understand the list.
func denyMasked(list string) bool {
	denied := make(map[string]bool)
	for line := range strings.Lines(list) {
		name, err := strconv.Unquote(strings.TrimSuffix(line[1:], "\n"))
		if err != nil || line[0] != '-' && line[0] != '+' {
			return false
		}
		denied[name] = line[0] == '-'
	}
	if len(denied) == 0 {
		return true
	}
	files.Deny(func(name string) bool {
		for {
			if mask, mounted := denied[name]; mounted {
				return mask
			}
			i := strings.LastIndexByte(name, '/')
			if i < 0 || name == "/" {
				return false
			}
			name = name[:max(i, 1)]
		}
	})
	return true
}

// deniedByEnvironment takes the list from the environment.
func deniedByEnvironment() bool {
	list := os.Getenv(denialsVariable)
	_ = os.Unsetenv(denialsVariable)
	return denyMasked(list)
}
