package execclient

import (
	"context"

	"codex.internal/pkg/execproto"
)

// FileSandbox is fileSandbox for tests.
var FileSandbox = fileSandbox

// WalkByReadDir is Walk for a server without fs/walk.
func (f *FS) WalkByReadDir(ctx context.Context, root string, o execproto.WalkOptions) (execproto.WalkResult, error) {
	return f.walkByReadDir(ctx, root, o)
}
