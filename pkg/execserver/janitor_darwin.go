package execserver

import (
	"os"

	"codex.internal/pkg/sandbox/runner"
)

// janitorKeeper keeps nothing: there are no sandboxes on macOS.
type janitorKeeper struct{ srv *Server }

func (*janitorKeeper) connect(*runner.Runtime) *os.File { return nil }
