package rendezvous

import (
	"errors"

	"codex.internal/pkg/internal/atomicfile"
	"codex.internal/pkg/internal/tokens"
)

// InvalidError says that what a person has asked for cannot be: the role, name,
// environment or expires of a token, or the public URL of a service.
type InvalidError = tokens.InvalidError

func invalid(what, format string, args ...any) error { return tokens.Invalid(what, format, args...) }

// ErrLocked says that another process works with a file.
var ErrLocked = atomicfile.ErrLocked

var (
	// ErrServerClosed is what Serve returns after Shutdown or its context's end.
	ErrServerClosed = errors.New("the rendezvous service has been shut down")
	// ErrNoToken says that there is no token with an id.
	ErrNoToken = tokens.ErrNoToken
	// ErrBadToken says that a token is not one of the service's, or not any
	// more.
	ErrBadToken = tokens.ErrBadToken
)

// The errors of a State.
var (
	// ErrTooMany says that a limit on registrations is reached.
	ErrTooMany = errors.New("too many environments are registered")
	// ErrNotRegistered says that there is no registration, or not any more.
	ErrNotRegistered = errors.New("it is not registered")
	// ErrUnavailable says that what the nodes of a service share is out of
	// reach at present.
	ErrUnavailable = errors.New("the state of the service is out of reach")
)

// The errors of a Bus and of mailboxes.
var (
	// ErrNobody says that no mailbox has an address.
	ErrNobody = errors.New("nobody has the address")
	// ErrReplaced is why a mailbox is closed whose address another has taken.
	ErrReplaced = errors.New("a newer connection has taken its place")
)
