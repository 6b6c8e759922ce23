package execserver

import (
	"os"

	"codex.internal/pkg/sandbox/launch"
)

// janitorKeeper keeps nothing: there are no sandboxes on macOS.
type janitorKeeper struct{ srv *Server }

func (*janitorKeeper) connect(*launch.Runtime) *os.File { return nil }
