package cmdutil

import "golang.org/x/sys/windows"

// ErrConnectionRefused is what a dial says when nobody listens.
const ErrConnectionRefused = windows.WSAECONNREFUSED
