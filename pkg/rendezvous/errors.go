package rendezvous

import (
	"errors"

	"codex.internal/pkg/internal/atomicfile"
	"codex.internal/pkg/internal/tokens"
)

// InvalidError is the error for an invalid role, name, environment or expiry of a token,
// or an invalid public URL of a service.
type InvalidError = tokens.InvalidError

func invalid(what, format string, args ...any) error { return tokens.Invalid(what, format, args...) }

// ErrLocked means that another process has locked a file.
var ErrLocked = atomicfile.ErrLocked

var (
	// ErrServerClosed is the error of Serve after Shutdown, or after its context has ended.
	ErrServerClosed = errors.New("the rendezvous service has been shut down")
	// ErrNoToken means that there is no token with that id.
	ErrNoToken = tokens.ErrNoToken
	// ErrBadToken means that a token is unknown, revoked or expired.
	ErrBadToken = tokens.ErrBadToken
)

// The errors of a State.
var (
	// ErrTooMany means that a limit on registrations is reached.
	ErrTooMany = errors.New("too many environments are registered")
	// ErrNotRegistered means that the registration does not exist, or has been removed.
	ErrNotRegistered = errors.New("not registered")
	// ErrUnavailable means that the state that the nodes of a service share cannot be
	// reached at present.
	ErrUnavailable = errors.New("the state of the service cannot be reached")
)

// The errors of a Bus and of mailboxes.
var (
	// ErrNobody means that no mailbox has an address.
	ErrNobody = errors.New("no connection has this address")
	// ErrReplaced closes a mailbox whose address was bound to another.
	ErrReplaced = errors.New("a newer connection has taken its place")
)
