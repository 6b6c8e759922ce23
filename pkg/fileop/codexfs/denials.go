package codexfs

import (
	"os"
	"strconv"
	"strings"

	"codex.internal/pkg/host/files"
)

// denialsVariable lists the mounts of the sandbox, one per line: - and the quoted path for a
// mask, + and the quoted path for any other mount.
const denialsVariable = "CODEX_FS_DENIED"

// denyMasked makes the helper refuse files below masks, whatever the kernel shows there. If a
// mask is missing because of an error, only this protects the files. It returns false if it
// cannot parse the list.
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

// deniedByEnvironment calls denyMasked with the list in the environment.
func deniedByEnvironment() bool {
	list := os.Getenv(denialsVariable)
	_ = os.Unsetenv(denialsVariable)
	return denyMasked(list)
}
