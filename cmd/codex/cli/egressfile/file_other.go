//go:build !unix

package egressfile

import (
	"context"

	"codex.internal/cmd/codex/cli/cmdutil"
)

// File cannot be opened on this system, because the system does not report the owners of the links
// in a path.
type File struct{}

// Open returns an error.
func Open(string) (*File, error) {
	return nil, cmdutil.LinuxOnly("codex remote --save", "add the hosts to the server's --egress-policy file by hand")
}

// Allow is never called.
func (*File) Allow(context.Context, ...string) error { return nil }

// Close is never called.
func (*File) Close() error { return nil }
