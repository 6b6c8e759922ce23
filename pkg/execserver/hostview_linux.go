package execserver

import "codex.internal/pkg/sandbox"

// hostView is what policies are resolved against.
var hostView sandbox.HostView
