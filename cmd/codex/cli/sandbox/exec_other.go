//go:build !linux

package sandbox

import "errors"

// errNotHere is what the command says where there are no sandboxes.
var errNotHere = errors.New("codex sandbox runs on Linux only; on this system use a sandbox of an executor on Linux: codex remote run --sandbox")

func (*localLaunch) exec() error { return errNotHere }
