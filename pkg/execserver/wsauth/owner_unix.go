//go:build unix

package wsauth

import (
	"os"
	"syscall"
)

// ownedBySelf reports whether a file belongs to this process's user.
func ownedBySelf(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(stat.Uid) == os.Geteuid()
}
