package permissions

import (
	"errors"

	"codex.internal/pkg/wire/logtext"
)

// PathError means that a path of a profile is not a path of this host.
type PathError struct {
	Text string // as it was written, shortened
	Err  error  // the error of the PathDecoder
}

// Error returns the text for the client.
func (e *PathError) Error() string { return "invalid sandbox permission path URI: " + e.Err.Error() }

// Unwrap returns the error of the PathDecoder.
func (e *PathError) Unwrap() error { return e.Err }

// ShapeError means that a JSON text is not a permission profile. Error returns the text of Codex
// CLI, which does not contain the reason; Cause is the reason.
type ShapeError struct {
	Cause error // the error of decoding it as a tagged profile, or in the older form if it has no tag
}

// Error returns the text for the client.
func (e *ShapeError) Error() string {
	return "data did not match any variant of untagged enum PermissionProfileDe"
}

// Unwrap returns the cause.
func (e *ShapeError) Unwrap() error { return e.Cause }

// ErrOutsideWorkspace means that no legacy policy can express a profile.
var ErrOutsideWorkspace = errors.New("permissions profile requests filesystem writes outside the workspace root, " +
	"which is not supported until the runtime enforces FileSystemSandboxPolicy directly")

// ErrGlobAccess means that an overlay has a pattern that is not denied.
var ErrGlobAccess = errors.New("glob file system permissions only support deny-read entries")

// clip shortens input that an error repeats.
func clip(s string) string { return logtext.Clip(s, maxShown) }
