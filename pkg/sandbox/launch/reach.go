package launch

import "errors"

// ErrNoNetwork says that a process has no network of its own: it uses the machine's.
var ErrNoNetwork = errors.New("the process has no network of its own; it uses the server's")

// ErrNotReady says that the sandbox of a process is still being made.
var ErrNotReady = errors.New("the sandbox of the process is still being made")
