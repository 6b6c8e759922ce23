package cmdutil

import "golang.org/x/sys/windows"

// ErrConnectionRefused is the error of a dial if no process listens on the address.
const ErrConnectionRefused = windows.WSAECONNREFUSED

// ErrAddressInUse is the error of listening if another socket has the address.
const ErrAddressInUse = windows.WSAEADDRINUSE
