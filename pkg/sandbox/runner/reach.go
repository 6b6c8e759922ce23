package runner

import "errors"

// ErrNoNetwork means that a process has no network of its own: it uses the machine's.
var ErrNoNetwork = errors.New("the process has no network of its own; it uses the server's")

// ErrForeignSocket means that a socket in a sandbox belongs to a process outside of it.
var ErrForeignSocket = errors.New("the socket belongs to a process outside of the sandbox")

// ErrNotReady means that the sandbox of a process is still being made.
var ErrNotReady = errors.New("the sandbox of the process is still being made")
