package fsops

import (
	"context"
	"errors"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/watch"
	"codex.internal/pkg/wire/pathuri"
)

// OpenWatch carries out fs/watch for a native path (docs/spec/wire.md §5.13). ending
// and in are as in watch.OpenTree.
func OpenWatch(ctx context.Context, in *watch.Instance, path string, recursive bool, ending int) (*watch.Tree, error) {
	t, err := watch.OpenTree(ctx, in, path, recursive, ending)
	var limit *watch.LimitError
	if errors.Is(err, watch.ErrSilent) || errors.Is(err, watch.ErrUnsupported) || errors.As(err, &limit) {
		return nil, Invalid(err.Error())
	}
	return t, err
}

var watchKinds = map[watch.Kind]string{
	watch.Created:    execproto.WatchCreated,
	watch.Modified:   execproto.WatchModified,
	watch.Attributes: execproto.WatchAttributes,
	watch.Removed:    execproto.WatchRemoved,
	watch.Unwatched:  execproto.WatchUnwatched,
}

// Changed converts a batch to the protocol's form, without watch id and sequence number.
func Changed(b *watch.Batch) *execproto.Changed {
	n := &execproto.Changed{Events: make([]execproto.WatchEvent, len(b.Events)), Overflow: b.Overflow, Ended: b.Ended}
	for i, e := range b.Events {
		n.Events[i] = execproto.WatchEvent{Path: pathuri.Format(e.Path), Kind: watchKinds[e.Kind], IsDirectory: e.Directory}
	}
	return n
}
