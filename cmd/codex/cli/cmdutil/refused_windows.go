package cmdutil

import "golang.org/x/sys/windows"

// ErrConnectionRefused is what a dial says when nobody listens.
const ErrConnectionRefused = windows.WSAECONNREFUSED

// ErrAddressInUse is what listening says when another socket has the address.
const ErrAddressInUse = windows.WSAEADDRINUSE
