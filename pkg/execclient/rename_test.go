package execclient

import (
	"errors"
	"io/fs"
	"testing"

	"codex.internal/pkg/execproto"
)

// TestRenameNeedsTheExtension sends nothing to a server that cannot rename.
func TestRenameNeedsTheExtension(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, _ := newHost(t).join(Options{}, "process/list")
		defer c.Close()
		err := c.FS().Rename(t.Context(), "/a", "/b", RenameOptions{})
		var about *fs.PathError
		if !errors.Is(err, ErrUnsupported) || !errors.As(err, &about) || about.Path != "/a" {
			t.Error(err)
		}
	})
}

// TestAttributesNeedTheExtension sends nothing to a server without permissions.
func TestAttributesNeedTheExtension(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, _ := newHost(t).join(Options{}, "process/list")
		defer c.Close()
		files, ctx := c.FS(), t.Context()
		_, attributes := files.Attributes(ctx, "/a")
		_, list := files.ListAttributes(ctx, "/a")
		_, entries := files.ReadDirAttributes(ctx, "/a")
		_, walk := files.Walk(ctx, "/a", execproto.WalkOptions{MaxDirectories: 1, MaxEntries: 1, Attributes: true})
		_, target := files.Readlink(ctx, "/a")
		for _, err := range []error{
			attributes, list, entries, walk, target, files.RemoveWith(ctx, "/a", RemoveOptions{NoFollow: true, Link: true}),
			files.Chmod(ctx, "/a", 0), files.MkdirAllWith(ctx, "/a", MkdirOptions{Permissions: new(fs.FileMode(0))}), files.Symlink(ctx, "b", "/a", SymlinkOptions{}),
			files.WriteFileWith(ctx, "/a", nil, WriteOptions{Atomic: true}),
		} {
			var about *fs.PathError
			if !errors.Is(err, ErrUnsupported) || !errors.As(err, &about) || about.Path != "/a" {
				t.Error(err)
			}
		}
	})
}
