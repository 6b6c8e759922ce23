package rendezvous

import (
	"context"
	"crypto/sha256"
	"time"

	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/wire/secret"
)

// Registration is an executor that offers an environment.
type Registration struct {
	ID          string          `json:"id"`
	Environment string          `json:"environment"`
	Key         noise.PublicKey `json:"executor_public_key"`
	Token       string          `json:"token"`   // id of whose it is
	Expires     time.Time       `json:"expires"` // when its URL cannot be dialled any more
}

// Listed is a registration that harnesses are sent to, and whether its executor
// is connected.
type Listed struct {
	Registration
	Connected  bool
	Connection *ExecutorConnection // the newest; nil: its executor has not connected yet
}

// ExecutorConnection is a connection of an executor, for the people who read the status page.
type ExecutorConnection struct {
	Address string    `json:"address"` // where it came from
	Since   time.Time `json:"since"`
	// Until is when it ended. Zero: it has not, or its node was lost.
	Until time.Time `json:"until,omitzero"`
	// Name and Agent are what the executor says of itself; see relay.ReadDescription.
	Name  string `json:"name,omitempty"`
	Agent string `json:"agent,omitempty"`
}

// KeyBytes is how long a key is that signs.
const KeyBytes = sha256.Size

// Keys are the secrets by which nodes know what another has handed out.
type Keys struct {
	secret.Unprinted
	URLs           [KeyBytes]byte
	Authorizations [KeyBytes]byte // not known longer than what was spent
}

// State is what the nodes of a service have in common, besides the sockets.
// The newest registration of an environment is the one that harnesses are sent
// to. One that was replaced lives on while its executor is connected, so that
// two executors of one name do not throw each other out for ever. The methods
// may be called from any goroutine; they end soon after their ctx, and return
// an ErrUnavailable if what they need is out of reach for a while.
type State interface {
	Keys() Keys
	// Register keeps a registration and makes it the newest of its
	// environment. The error is an ErrTooMany at a limit.
	Register(ctx context.Context, reg Registration) error
	// Newest returns the registration of an environment that harnesses are
	// sent to, or an ErrNotRegistered.
	Newest(ctx context.Context, environment string) (Registration, error)
	// Find returns the registration with an id, or an ErrNotRegistered.
	Find(ctx context.Context, id string) (Registration, error)
	// Attach notes that a registration's executor connects; Detach must
	// follow. Until of c must be zero. The generation is greater than that of
	// every earlier connection of the executor. The error is an
	// ErrNotRegistered if the executor has been replaced, or was never there.
	Attach(ctx context.Context, id string, c ExecutorConnection) (generation uint64, err error)
	// Detach notes that the connection with a generation is over, at a time.
	Detach(ctx context.Context, id string, generation uint64, at time.Time)
	// Nonce makes a nonce. It has letters, digits and dashes.
	Nonce() string
	// Spend returns true at most once for each nonce that one of the nodes has
	// made and was not spent before, until a time after which it is not asked
	// any more.
	Spend(ctx context.Context, nonce string, until time.Time) (bool, error)
	// List returns what Newest returns for all environments, in no order. It
	// does not wait, and may be a moment behind.
	List() []Listed
	// Sweep forgets what has expired.
	Sweep(ctx context.Context)
	// Check says why the state cannot be changed at present.
	Check(ctx context.Context) error
}
