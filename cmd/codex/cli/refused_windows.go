package cli

import "golang.org/x/sys/windows"

// errRefused is what a dial says when nobody listens.
const errRefused = windows.WSAECONNREFUSED
