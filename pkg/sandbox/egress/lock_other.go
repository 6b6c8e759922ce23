//go:build !unix

package egress

import (
	"errors"
	"os"
)

// lock returns an error: on this system a lock would not end with a killed program.
func lock(*os.File) error { return errors.ErrUnsupported }

// ownedByUser reports whether a file belongs to the user of this program, which is not known.
func ownedByUser(os.FileInfo) bool { return false }
