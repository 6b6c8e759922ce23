package execclient

import (
	"errors"
	"io/fs"
	"testing"
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
