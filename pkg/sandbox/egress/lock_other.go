//go:build !unix

package egress

import (
	"errors"
	"os"
)

// lock returns an error: a killed program would keep no lock here.
func lock(*os.File) error { return errors.ErrUnsupported }

// ownedByUser reports whether a file belongs to the user of this program, which is not known.
func ownedByUser(os.FileInfo) bool { return false }
