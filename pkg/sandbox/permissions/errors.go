package permissions

import (
	"errors"
	"fmt"

	"codex.internal/pkg/wire/logtext"
)

// PathError says that a path of a profile is none of this host.
type PathError struct {
	Text string // as it was written, shortened
	Err  error  // what the PathDecoder said
}

// Error returns the text for the client.
func (e *PathError) Error() string { return "invalid sandbox permission path URI: " + e.Err.Error() }

// Unwrap returns what the PathDecoder said.
func (e *PathError) Unwrap() error { return e.Err }

// ShapeError says that a JSON text is no permission profile. Its text is Codex
// CLI's, which does not say why; Cause does.
type ShapeError struct {
	Cause error // what is wrong with it as a tagged profile, or as the older shape if it has no tag
}

// Error returns the text for the client.
func (e *ShapeError) Error() string {
	return "data did not match any variant of untagged enum PermissionProfileDe"
}

// Unwrap returns the cause.
func (e *ShapeError) Unwrap() error { return e.Cause }

// ErrOutsideWorkspace says that no legacy policy can express a profile.
var ErrOutsideWorkspace = errors.New("permissions profile requests filesystem writes outside the workspace root, " +
	"which is not supported until the runtime enforces FileSystemSandboxPolicy directly")

// ErrGlobAccess says that an overlay has a pattern that is not denied.
var ErrGlobAccess = errors.New("glob file system permissions only support deny-read entries")

// unknown is the error for a word that is none of those expected.
func unknown(got string, words ...string) error {
	return fmt.Errorf("unknown variant `%s`, expected one of %q", clip(got), words)
}

// clip shortens what an error repeats of its input.
func clip(s string) string { return logtext.Clip(s, maxShown) }
