//go:build !unix

package egress

import (
	"errors"
	"os"
)

// lock returns an error: on this system a lock would not be released when its program is killed.
func lock(*os.File) error { return errors.ErrUnsupported }

// ownedByUser returns false, because the owner of a file is not known on this system.
func ownedByUser(os.FileInfo) bool { return false }
